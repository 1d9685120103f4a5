// Which queue pairs a program may name to a peer when it connects or accepts. A peer that knows a
// number already takes the queue pair to have restarted, and ends its earlier connection.

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

#include "tests/unit/cm_user/cm_program.h"

namespace uroce::control::cm_user {
namespace {

using enum EventNumber;

// A program of the daemon's own user, and one of another user.
class NamedQueuePair : public testing::Test {
 protected:
  static std::uint32_t make_listener(CmProgram& program, const ProgramChannel& channel) {
    const std::uint32_t id = program.create_id(channel, 1);
    EXPECT_EQ(program.bind(channel, id, "10.0.0.1", kPort).error, 0);
    EXPECT_EQ(program.listen(channel, id).error, 0);
    return id;
  }
  // An id that is about to connect to the listener.
  static std::uint32_t make_route(CmProgram& program, const ProgramChannel& channel) {
    const std::uint32_t id = program.create_id(channel, 2);
    EXPECT_EQ(program.resolve(channel, id, "10.0.0.1", kPort).error, 0);
    program.expect_event(channel, kAddrResolved);
    EXPECT_EQ(program.resolve_route(channel, id).error, 0);
    program.expect_event(channel, kRouteResolved);
    return id;
  }

  Rig rig;
  CmProgram own{rig}, other{rig, ::getuid() + 1};
  ProgramChannel own_channel = own.open_channel(), other_channel = other.open_channel();
};

TEST_F(NamedQueuePair, MayNotBeAnotherUsersWhenConnecting) {
  make_listener(own, own_channel);
  const std::uint32_t id = make_route(other, other_channel);
  const CmAnswer answer = other.connect(other_channel, id, own.make_qp());
  EXPECT_EQ(answer.error, EPERM);
  EXPECT_NE(answer.message.find("is another user's"), std::string::npos) << answer.message;
  EXPECT_FALSE(own_channel.readable()) << "the peer isn't told";
  EXPECT_EQ(other.connect(other_channel, id, other.make_qp()).error, 0);
  own.expect_event(own_channel, kConnectRequest);
}

TEST_F(NamedQueuePair, MayNotBeAnotherUsersWhenAccepting) {
  make_listener(other, other_channel);
  ASSERT_EQ(own.connect(own_channel, make_route(own, own_channel), own.make_qp()).error, 0);
  const std::uint32_t passive = other.expect_event(other_channel, kConnectRequest).id;
  const std::uint32_t victim = own.make_qp();
  EXPECT_EQ(other.accept(other_channel, passive, 3, victim).error, EPERM);
  EXPECT_FALSE(rig.connections.names_queue_pair(victim));
  EXPECT_FALSE(own_channel.readable());
  const std::uint32_t theirs = other.make_qp();
  EXPECT_EQ(other.accept(other_channel, passive, 3, theirs).error, 0);
  EXPECT_TRUE(rig.connections.names_queue_pair(theirs));
  own.expect_event(own_channel, kConnectResponse);
}

// Programs may use queue pairs that aren't the card's, or none at all.
TEST_F(NamedQueuePair, MayBeOneThatDoesNotExist) {
  make_listener(own, own_channel);
  ASSERT_EQ(other.connect(other_channel, make_route(other, other_channel), 100).error, 0);
  const std::uint32_t passive = own.expect_event(own_channel, kConnectRequest).id;
  EXPECT_EQ(own.accept(own_channel, passive, 3, 200).error, 0);
  EXPECT_FALSE(rig.connections.names_queue_pair(200));
}

// A server that binds as root and then drops its privileges has its queue pairs as another user.
TEST_F(NamedQueuePair, MayBeAnyonesForRoot) {
  make_listener(own, own_channel);
  ASSERT_EQ(other.connect(other_channel, make_route(other, other_channel), 100).error, 0);
  const std::uint32_t passive = own.expect_event(own_channel, kConnectRequest).id;
  const std::uint32_t theirs = other.make_qp();
  EXPECT_EQ(own.accept(own_channel, passive, 3, theirs).error, 0);
  EXPECT_TRUE(rig.connections.names_queue_pair(theirs));
}

// The process opened its device as one user, and its first event channel as another.
TEST_F(NamedQueuePair, MayBeAnotherUsersOfTheSameProcess) {
  const auto process = std::make_shared<ProgramProcess>(::getpid(), ::getuid(), ::getgid());
  CmProgram before{rig, Peer{::getpid(), ::getuid() + 1, 0, process}};
  CmProgram after{rig, Peer{::getpid(), ::getuid() + 2, 0, process}};
  const ProgramChannel channel = after.open_channel();
  make_listener(own, own_channel);
  EXPECT_EQ(after.connect(channel, make_route(after, channel), before.make_qp()).error, 0);
  own.expect_event(own_channel, kConnectRequest);
}

// A datagram service's answer ends no connection.
TEST_F(NamedQueuePair, MayBeAnyonesForADatagramService) {
  const std::uint32_t listening = other.create_id(other_channel, 1, RDMA_PS_UDP);
  ASSERT_EQ(other.bind(other_channel, listening, "10.0.0.1", kPort).error, 0);
  ASSERT_EQ(other.listen(other_channel, listening).error, 0);
  const std::uint32_t active = own.create_id(own_channel, 2, RDMA_PS_UDP);
  ASSERT_EQ(own.resolve(own_channel, active, "10.0.0.1", kPort).error, 0);
  own.expect_event(own_channel, kAddrResolved);
  ASSERT_EQ(own.resolve_route(own_channel, active).error, 0);
  own.expect_event(own_channel, kRouteResolved);
  ASSERT_EQ(own.connect(own_channel, active, 100).error, 0);
  const std::uint32_t passive = other.expect_event(other_channel, kConnectRequest).id;
  EXPECT_EQ(other.accept(other_channel, passive, 3, own.make_qp()).error, 0);
}

}  // namespace
}  // namespace uroce::control::cm_user
