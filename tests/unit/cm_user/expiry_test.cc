// Requests that their senders have given up or withdrawn, in the channel of a program that hasn't
// fetched them.

#include <cerrno>

#include "tests/unit/cm_user/two_programs.h"

namespace uroce::control::cm_user {
namespace {

using enum EventNumber;

class Expiry : public TwoPrograms {
 protected:
  // A request to a datagram service: its sender gives it up without a message.
  void ask_and_forget() {
    ask(kDatagram);
    ASSERT_EQ(client.destroy_id(client_channel, active).error, 0);
  }
};

TEST_F(Expiry, LeavesTheLastEventOfAReadableChannel) {
  listen(kDatagram);
  ask_and_forget();
  pass_time();
  ASSERT_EQ(rig.connections.manager().counters().expired, 1U);
  passive = server.expect_event(server_channel, kConnectRequest).id;
  EXPECT_FALSE(server_channel.readable());
  EXPECT_EQ(server.accept(server_channel, passive, kServerUid, next_qpn++).error, EINVAL);
  EXPECT_EQ(server.destroy_id(server_channel, passive).error, 0);
}

TEST_F(Expiry, LeavesOnlyTheLastEvent) {
  constexpr std::uint32_t kRequests = 5;
  listen(kDatagram);
  for (int round = 0; round < 2; ++round) {
    for (std::uint32_t i = 0; i < kRequests; ++i) {
      ask_and_forget();
    }
    pass_time();
    EXPECT_EQ(rig.connections.ids(), 2U) << "the listening id and that of the last request";
  }
  server.expect_event(server_channel, kConnectRequest);
  EXPECT_FALSE(server_channel.readable());
  EXPECT_FALSE(server.next_event(server_channel));
}

// The sender's REJ takes a request out of the backlog, so any number could follow.
TEST_F(Expiry, IsAlsoTheEndOfARequestThatIsWithdrawn) {
  const Account& account = *server.program.session.account();
  listen(kStream);
  for (int i = 0; i < 5; ++i) {
    ask(kStream);
    ASSERT_EQ(client.destroy_id(client_channel, active).error, 0);
  }
  EXPECT_EQ(rig.connections.ids(), 2U) << "the listening id and that of the last request";
  EXPECT_EQ(account.used(Limit::kCmIds), 2U);
  EXPECT_EQ(account.used(Limit::kConnections), 1U);
  passive = server.expect_event(server_channel, kConnectRequest).id;
  EXPECT_FALSE(server_channel.readable());
  EXPECT_EQ(server.accept(server_channel, passive, kServerUid, next_qpn++).error, EINVAL);
  EXPECT_EQ(server.destroy_id(server_channel, passive).error, 0);
}

// Its program knows the id by then, and destroys it.
TEST_F(Expiry, LeavesARequestThatIsWithdrawnAfterItWasFetched) {
  listen(kStream);
  ask(kStream);
  passive = server.expect_event(server_channel, kConnectRequest).id;
  ASSERT_EQ(client.destroy_id(client_channel, active).error, 0);
  EXPECT_FALSE(server_channel.readable());
  EXPECT_EQ(server.accept(server_channel, passive, kServerUid, next_qpn++).error, EINVAL);
  EXPECT_EQ(server.destroy_id(server_channel, passive).error, 0);
}

TEST_F(Expiry, EndsWithItsListener) {
  listen(kDatagram);
  ask_and_forget();
  pass_time();
  ASSERT_EQ(server.destroy_id(server_channel, listening).error, 0);
  EXPECT_FALSE(server_channel.readable());
  EXPECT_EQ(rig.connections.ids(), 0U);
}

}  // namespace
}  // namespace uroce::control::cm_user
