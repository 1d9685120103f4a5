// Many ids that wait for an address.

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "tests/unit/cm_user/cm_program.h"

namespace uroce::control::cm_user {
namespace {

using enum EventNumber;

class Resolving : public testing::Test {
 protected:
  void resolve(std::uint64_t uid, std::uint32_t timeout_ms) {
    const std::uint32_t id = program.create_id(channel, uid);
    ASSERT_EQ(program.resolve(channel, id, "10.0.0.99", kPort, timeout_ms).error, 0);
  }
  // What a turn of the control thread pays for asking when to wake up, at best.
  double nanoseconds_to_ask() {
    constexpr int kTries = 20, kCalls = 100;
    auto best = std::chrono::nanoseconds::max();
    for (int i = 0; i < kTries; ++i) {
      const auto begun = std::chrono::steady_clock::now();
      for (int call = 0; call < kCalls; ++call) {
        EXPECT_NE(rig.connections.next_deadline(), kNever);
      }
      best = std::min<std::chrono::nanoseconds>(best, std::chrono::steady_clock::now() - begun);
    }
    return static_cast<double>(best.count()) / kCalls;
  }

  Rig rig{std::make_unique<SilentPort>(), 1};
  CmProgram program{rig};
  ProgramChannel channel = program.open_channel();
};

TEST_F(Resolving, EndsForEachIdAtItsOwnTime) {
  resolve(1, 300);
  resolve(2, 100);
  resolve(3, 200);
  for (const std::uint64_t uid : {2U, 3U, 1U}) {
    rig.now = rig.connections.next_deadline() - 1;
    rig.connections.on_time();
    EXPECT_FALSE(channel.readable());
    ++rig.now;
    rig.connections.on_time();
    const auto event = program.expect_event(channel, kAddrError);
    EXPECT_EQ(event.uid, uid);
    EXPECT_EQ(static_cast<int>(event.status), -ETIMEDOUT);
  }
  EXPECT_EQ(rig.connections.next_deadline(), kNever);
}

// As on a host with two networks whose first way to a server is broken.
TEST_F(Resolving, AnIdWhoseResolutionFailedChoosesItsSourceAnew) {
  ASSERT_TRUE(rig.card.devices().front().add_address(*parse_prefix("10.2.0.1/24")));
  const std::uint32_t id = program.create_id(channel, 1);
  ASSERT_EQ(program.resolve(channel, id, "10.0.0.99", kPort, 100).error, 0);
  rig.now = rig.connections.next_deadline();
  rig.connections.on_time();
  program.expect_event(channel, kAddrError);
  ASSERT_EQ(program.resolve(channel, id, "10.9.9.9", kPort, 100).error, ENETUNREACH);
  ASSERT_EQ(program.resolve(channel, id, "10.2.0.99", kPort, 100).error, 0);
  const auto route = program.query_route(channel, id);
  EXPECT_EQ(parse_sockaddr(std::as_bytes(std::span(&route.src_addr, 1)))->address,
            *parse_ip("10.2.0.1"));
}

TEST_F(Resolving, AnIdWhoseSourceIsUncertainJoinsNoGroup) {
  const std::uint32_t id = program.create_id(channel, 1);
  rdma_ucm_join_ip_mcast join{};
  join.id = id;
  join.addr = CmProgram::socket_address("239.1.2.3", 0);
  ASSERT_EQ(program.resolve(channel, id, "10.0.0.99", kPort, 100).error, 0);
  EXPECT_EQ(program.command(channel, RDMA_USER_CM_CMD_JOIN_IP_MCAST, join).error, EINVAL);
  rig.now = rig.connections.next_deadline();
  rig.connections.on_time();
  program.expect_event(channel, kAddrError);
  ASSERT_EQ(program.resolve(channel, id, "10.0.0.1", kPort, 100).error, 0);
  program.expect_event(channel, kAddrResolved);
  ASSERT_EQ(program.command(channel, RDMA_USER_CM_CMD_JOIN_IP_MCAST, join).error, 0);
  program.expect_event(channel, kMulticastJoin);
  EXPECT_EQ(program.destroy_id(channel, id).error, 0);
}

TEST_F(Resolving, DestroyedIdsAreForgotten) {
  const std::uint32_t id = program.create_id(channel, 1);
  ASSERT_EQ(program.resolve(channel, id, "10.0.0.99", kPort, 100).error, 0);
  ASSERT_EQ(program.destroy_id(channel, id).error, 0);
  EXPECT_EQ(rig.connections.next_deadline(), kNever);
}

// With 10,000 a turn took half a millisecond to ask, and a timeout three to serve.
TEST_F(Resolving, TakesNoTimeOfATurnHoweverManyWait) {
  constexpr std::uint32_t kFew = 10, kMany = 3'000;
  for (std::uint32_t i = 0; i < kFew; ++i) {
    resolve(1, 1'000'000);
  }
  const double few = nanoseconds_to_ask();
  for (std::uint32_t i = kFew; i < kMany; ++i) {
    resolve(1, 1'000'000);
  }
  EXPECT_LT(nanoseconds_to_ask(), 20 * few);
}

// Resolving gives an id that is bound to a wildcard the source address of the destination's family,
// and its claim to the port stays the wildcard's.
TEST_F(Resolving, AnAddressThatIsMadeReusableIsOfTheFamiliesThatWereBound) {
  const std::uint32_t id = program.create_id(channel, 1);
  ASSERT_EQ(program.bind(channel, id, "::", kPort).error, 0);
  ASSERT_EQ(program.resolve(channel, id, "10.0.0.99", kPort, 100).error, 0);
  rig.now = rig.connections.next_deadline();
  rig.connections.on_time();
  program.expect_event(channel, kAddrError);
  ASSERT_EQ(program.set_option(channel, id, RDMA_OPTION_ID_REUSEADDR, 1).error, 0);
  const std::uint32_t other = program.create_id(channel, 2);
  EXPECT_EQ(program.bind(channel, other, "0.0.0.0", kPort).error, EADDRINUSE);
}

}  // namespace
}  // namespace uroce::control::cm_user
