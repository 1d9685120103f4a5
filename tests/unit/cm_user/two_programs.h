#pragma once

// A program that listens and one that connects to it, each with an event channel of its own.

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <algorithm>

#include "tests/unit/cm_user/cm_program.h"

namespace uroce::control::cm_user {

// The kind of an id.
struct Kind {
  std::uint16_t space = RDMA_PS_TCP;
  std::uint8_t qp_type = IBV_QPT_RC;
};
inline constexpr Kind kStream{};
inline constexpr Kind kDatagram{RDMA_PS_UDP, IBV_QPT_UD};

class TwoPrograms : public testing::Test {
 protected:
  static constexpr std::uint64_t kListeningUid = 1, kClientUid = 2, kServerUid = 3;

  void listen(Kind kind) {
    listening = server.create_id(server_channel, kListeningUid, kind.space, kind.qp_type);
    ASSERT_EQ(server.bind(server_channel, listening, "10.0.0.1", kPort).error, 0);
    ASSERT_EQ(server.listen(server_channel, listening).error, 0);
  }
  // Connects with a new id of the client. Queue pair numbers aren't reused: the peer would assume a
  // restart.
  void ask(Kind kind) {
    active = client.create_id(client_channel, kClientUid, kind.space, kind.qp_type);
    ASSERT_EQ(client.resolve(client_channel, active, "10.0.0.1", kPort).error, 0);
    client.expect_event(client_channel, EventNumber::kAddrResolved);
    ASSERT_EQ(client.resolve_route(client_channel, active).error, 0);
    client.expect_event(client_channel, EventNumber::kRouteResolved);
    ASSERT_EQ(client.connect(client_channel, active, next_qpn++).error, 0);
  }
  void accept() {
    passive = server.expect_event(server_channel, EventNumber::kConnectRequest).id;
    ASSERT_EQ(server.accept(server_channel, passive, kServerUid, next_qpn++).error, 0);
  }
  // Advances time until no timer is pending.
  void pass_time() {
    while (rig.connections.next_deadline() != kNever) {
      rig.now = std::max(rig.now, rig.connections.next_deadline());
      rig.connections.on_time();
    }
  }

  Rig rig;
  CmProgram server{rig}, client{rig};
  ProgramChannel server_channel = server.open_channel();
  ProgramChannel client_channel = client.open_channel();
  std::uint32_t listening = 0, active = 0, passive = 0;
  std::uint32_t next_qpn = 100;
};

}  // namespace uroce::control::cm_user
