// Requests to a program that has no room for another connection.

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/unit/cm_user/two_programs.h"

namespace uroce::control::cm_user {
namespace {

class RefusedRequests : public TwoPrograms {
 protected:
  // Connects while the listening program's user has used up `limit`.
  rdma_ucm_event_resp ask_beyond(Limit limit, Kind kind, EventNumber answer) {
    listen(kind);
    active = client.create_id(client_channel, kClientUid, kind.space, kind.qp_type);
    EXPECT_EQ(client.resolve(client_channel, active, "10.0.0.1", kPort).error, 0);
    client.expect_event(client_channel, EventNumber::kAddrResolved);
    EXPECT_EQ(client.resolve_route(client_channel, active).error, 0);
    client.expect_event(client_channel, EventNumber::kRouteResolved);
    // Both programs are one user's, and the client's own connection counts.
    const std::uint64_t allowed =
        server.program.session.account()->used(limit) + (limit == Limit::kConnections ? 1 : 0);
    rig.card.shares().set_limits(
        {.of_everybody = {}, .of_user = {{::getuid(), {"busy", {{limit, allowed}}}}}});
    EXPECT_EQ(client.connect(client_channel, active, next_qpn++).error, 0);
    return client.expect_event(client_channel, answer);
  }
  [[nodiscard]] std::string logged() const { return errors_json(rig.errors, 0, 0); }
};

TEST_F(RefusedRequests, ForWantOfIdsAreAnsweredWithNoResources) {
  const auto event = ask_beyond(Limit::kCmIds, kStream, EventNumber::kRejected);
  EXPECT_EQ(event.status, static_cast<int>(cm::RejectReason::kNoResources));
  EXPECT_NE(logged().find("a connection request to port 7471 was refused: user busy has 2 ids of "
                          "librdmacm and can't have 1 more: cm-ids under [limits.busy]"),
            std::string::npos)
      << logged();
  EXPECT_FALSE(server_channel.readable());
}

TEST_F(RefusedRequests, ForWantOfConnectionsAreAnsweredWithNoResources) {
  const auto event = ask_beyond(Limit::kConnections, kStream, EventNumber::kRejected);
  EXPECT_EQ(event.status, static_cast<int>(cm::RejectReason::kNoResources));
  EXPECT_NE(logged().find("was refused: user busy has 1 connections"), std::string::npos)
      << logged();
}

TEST_F(RefusedRequests, ForDatagramsAreAnsweredWithNoQueuePair) {
  const auto event = ask_beyond(Limit::kCmIds, kDatagram, EventNumber::kUnreachable);
  EXPECT_EQ(event.status, static_cast<int>(cm::SidrStatus::kNoQp));
  EXPECT_NE(logged().find("was refused: user busy has 2 ids"), std::string::npos) << logged();
}

}  // namespace
}  // namespace uroce::control::cm_user
