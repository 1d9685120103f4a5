// Addresses without a host or without an answer, and localhost.

#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <utility>

#include "tests/unit/cm_user/cm_program.h"

namespace uroce::control::cm_user {
namespace {

using enum EventNumber;

TEST(Commands, ADeadAddressIsAnEventInBoundedTime) {
  Rig rig(std::make_unique<SilentPort>(), 1);
  CmProgram program(rig);
  const ProgramChannel channel = program.open_channel();
  const std::uint32_t id = program.create_id(channel, 1);
  ASSERT_EQ(program.resolve(channel, id, "10.0.0.99", kPort, 1000).error, 0);
  EXPECT_FALSE(channel.readable());
  rig.now += 1000 * kNanosecondsPerMillisecond;
  EXPECT_LE(rig.connections.next_deadline(), rig.now);
  rig.connections.on_time();
  EXPECT_EQ(static_cast<int>(program.expect_event(channel, kAddrError).status), -ETIMEDOUT);
  const std::uint32_t second = program.create_id(channel, 2);
  EXPECT_EQ(program.resolve(channel, second, "192.0.2.1", kPort).error, ENETUNREACH);
}

// Users share the address requests that a port may have pending
// (control/ip/neighbours/neighbours.h).
TEST(Commands, OneUsersDeadAddressesLeaveRequestsToOthers) {
  Rig rig(std::make_unique<SilentPort>(), 1);
  CmProgram greedy(rig, ::getuid() + 1), another(rig, ::getuid() + 2);
  const ProgramChannel channel = greedy.open_channel(), others = another.open_channel();
  std::size_t asked = 0;
  for (; !channel.readable() && asked <= Neighbours::kUnansweredMax; ++asked) {
    const std::string dead = "fd00::1:" + std::to_string(1 + asked);
    ASSERT_EQ(greedy.resolve(channel, greedy.create_id(channel, 1), dead.c_str(), kPort).error, 0);
  }
  EXPECT_EQ(static_cast<int>(greedy.expect_event(channel, kAddrError).status), -ENOMEM);
  EXPECT_EQ(asked, Neighbours::kUnansweredMax / 2 + 1);
  ASSERT_EQ(another.resolve(others, another.create_id(others, 1), "fd00::2", kPort).error, 0);
  EXPECT_FALSE(others.readable()) << "the request is pending";
}

TEST(Commands, NothingIsResolvedWithoutAnEphemeralPort) {
  Rig rig;
  const PortTable::Claim claim{.endpoint = endpoint_of(*parse_ip("10.0.0.1"), 0)};
  constexpr PortTable::OwnerId kNobody = 1'000'000;
  const auto administrator = rig.card.shares().of({.uid = 0});
  for (PortTable::OwnerId owner = kNobody;
       rig.connections.ports().take(cm::PortSpace::kTcp, owner, *administrator, claim);) {
    ++owner;
  }
  CmProgram program(rig);
  const ProgramChannel channel = program.open_channel();
  const std::uint32_t id = program.create_id(channel, 1);
  for (int attempt = 0; attempt < 2; ++attempt) {
    EXPECT_EQ(program.resolve(channel, id, "10.0.0.1", kPort).error, EADDRNOTAVAIL) << attempt;
  }
}

// Each id of the greedy user has a port.
TEST(Commands, OneUsersEphemeralPortsLeaveSomeToOthers) {
  Rig rig;
  CmProgram greedy(rig, ::getuid() + 1), another(rig, ::getuid() + 2);
  const ProgramChannel channel = greedy.open_channel(), others = another.open_channel();
  CmAnswer answer;
  for (std::uint32_t bound = 0; answer.error == 0; ++bound) {
    ASSERT_LE(bound, FreePorts::kCount) << "nothing stops it";
    answer = greedy.bind(channel, greedy.create_id(channel, 1), "10.0.0.1", 0);
  }
  EXPECT_EQ(answer.error, ENOMEM);
  EXPECT_NE(answer.message.find("tcp-ports"), std::string::npos) << answer.message;
  EXPECT_EQ(another.resolve(others, another.create_id(others, 1), "10.0.0.1", kPort).error, 0);
  another.expect_event(others, kAddrResolved);
}

// Requests outlive the program that made them.
TEST(Commands, AUserWhoComesBackHasNoOtherShareOfRequests) {
  Rig rig(std::make_unique<SilentPort>(), 1);
  std::size_t asked = 0;
  for (int life = 0; life < 3; ++life) {
    CmProgram greedy(rig, ::getuid() + 1);
    const ProgramChannel channel = greedy.open_channel();
    for (; !channel.readable() && asked <= Neighbours::kUnansweredMax; ++asked) {
      const std::string dead = "fd00::1:" + std::to_string(1 + asked);
      const std::uint32_t id = greedy.create_id(channel, 1);
      ASSERT_EQ(greedy.resolve(channel, id, dead.c_str(), kPort).error, 0);
    }
    EXPECT_EQ(asked, Neighbours::kUnansweredMax / 2 + 1 + static_cast<std::size_t>(life));
  }
}

// A peer that exists, but whose connection manager never answers: Linux gives up after 16 requests,
// each 4.3 s plus the path's delay apart.
TEST(Commands, ASilentPeerIsUnreachableAfterAMinute) {
  Rig rig(std::make_unique<SilentPort>(), 1);
  CmProgram program(rig);
  const ProgramChannel channel = program.open_channel();
  const std::uint32_t id = program.create_id(channel, 1);
  const Time start = rig.now;
  Device& device = rig.card.devices().front();
  device.on_frame(
      build_arp_request({{2, 0, 0, 0, 0, 2}}, *parse_ip("10.0.0.2"), *parse_ip("10.0.0.1")), start);
  ASSERT_EQ(program.resolve(channel, id, "10.0.0.2", kPort).error, 0);
  program.expect_event(channel, kAddrResolved);
  ASSERT_EQ(program.resolve_route(channel, id).error, 0);
  program.expect_event(channel, kRouteResolved);
  ASSERT_EQ(program.connect(channel, id, 100).error, 0);
  while (!channel.readable()) {
    ASSERT_NE(rig.connections.next_deadline(), kNever);
    rig.now = rig.connections.next_deadline();
    rig.connections.on_time();
  }
  EXPECT_EQ(static_cast<int>(program.expect_event(channel, kUnreachable).status), -ETIMEDOUT);
  const Duration waited = rig.now - start;
  // 16 requests, each with a response time of 4.3 s and two packet lifetimes of 268 ms.
  EXPECT_GE(waited, 77 * kNanosecondsPerSecond);
  EXPECT_LE(waited, 78 * kNanosecondsPerSecond);
}

// Localhost isn't an address of the card, but libfabric binds to it.
TEST(Commands, LocalhostIsTheFirstAddressOfItsFamily) {
  Rig rig;
  CmProgram program(rig);
  const ProgramChannel channel = program.open_channel();
  const std::pair<const char*, const char*> kNames[] = {{"127.0.0.1", "10.0.0.1"},
                                                        {"::1", "fd00::1"}};
  for (const auto& [name, address] : kNames) {
    const std::uint32_t listening = program.create_id(channel, 1);
    ASSERT_EQ(program.bind(channel, listening, name, kPort).error, 0);
    const auto bound = program.query_route(channel, listening);
    EXPECT_EQ(*parse_sockaddr(std::as_bytes(std::span(&bound.src_addr, 1))),
              endpoint_of(*parse_ip(address), kPort));
    const std::uint32_t active = program.create_id(channel, 2);
    ASSERT_EQ(program.resolve(channel, active, name, kPort).error, 0);
    program.expect_event(channel, kAddrResolved);
    const auto resolved = program.query_route(channel, active);
    EXPECT_EQ(*parse_sockaddr(std::as_bytes(std::span(&resolved.dst_addr, 1))),
              endpoint_of(*parse_ip(address), kPort));
  }
}

}  // namespace
}  // namespace uroce::control::cm_user
