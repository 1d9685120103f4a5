// Requests between programs of one card: who sends them, and what their listener hears of them.

#include <gtest/gtest.h>

#include "control/cm/limits.h"
#include "control/cm_user/deliver.h"
#include "tests/unit/cm_user/two_programs.h"

namespace uroce::control::cm_user {
namespace {

class LocalSenders : public TwoPrograms {
 protected:
  static constexpr uid_t kAttacker = 4'242;

  [[nodiscard]] std::size_t waiting() {
    return rig.connections.manager().listeners().front().waiting;
  }
  // Returns the id that connects.
  std::uint32_t ask_from(CmProgram& program, const ProgramChannel& channel, std::uint32_t qpn,
                         Kind kind = kStream) {
    const std::uint32_t id = program.create_id(channel, kClientUid, kind.space, kind.qp_type);
    EXPECT_EQ(program.resolve(channel, id, "10.0.0.1", kPort).error, 0);
    program.expect_event(channel, EventNumber::kAddrResolved);
    EXPECT_EQ(program.resolve_route(channel, id).error, 0);
    program.expect_event(channel, EventNumber::kRouteResolved);
    EXPECT_EQ(program.connect(channel, id, qpn).error, 0);
    return id;
  }
  std::uint32_t ask_from(CmProgram& program, const ProgramChannel& channel, Kind kind = kStream) {
    return ask_from(program, channel, next_qpn++, kind);
  }
};

// All of them have the card's address.
TEST_F(LocalSenders, AUserLeavesRoomInTheBacklogForOthers) {
  listen(kStream);
  CmProgram attacker{rig, kAttacker};
  const ProgramChannel attackers_channel = attacker.open_channel();
  constexpr std::size_t kShare = cm::kBacklogMax / 2;
  for (std::size_t i = 0; i <= kShare; ++i) {
    ask_from(attacker, attackers_channel);
  }
  EXPECT_EQ(waiting(), kShare);
  ask_from(client, client_channel);
  EXPECT_EQ(waiting(), kShare + 1);
}

// A datagram service isn't told that its client has gone, so requests outlive their sender.
TEST_F(LocalSenders, AUserWhoComesBackIsTheSameSender) {
  listen(kDatagram);
  for (int life = 0; life < 4; ++life) {
    CmProgram attacker{rig, kAttacker};
    const ProgramChannel channel = attacker.open_channel();
    for (std::size_t before = cm::kBacklogMax; before != waiting();) {
      before = waiting();
      const std::uint32_t id = ask_from(attacker, channel, kDatagram);
      ASSERT_EQ(attacker.destroy_id(channel, id).error, 0);
    }
    EXPECT_EQ(waiting(), cm::kBacklogMax / 2) << "life " << life;
  }
}

// Two requests of one queue pair that are repeated at the same time: the second ends the first,
// whose event hasn't been delivered yet.
TEST_F(LocalSenders, ARequestThatEndsBeforeItIsDeliveredLeavesNothing) {
  listen(kStream);
  const std::uint32_t first = ask_from(client, client_channel);
  for (std::size_t i = 1; i < cm::kBacklogMax / 2; ++i) {
    ask_from(client, client_channel);
  }
  const std::uint32_t qpn = next_qpn++;
  ask_from(client, client_channel, qpn);
  ask_from(client, client_channel, qpn);
  ASSERT_EQ(waiting(), cm::kBacklogMax / 2) << "there is no room for them";
  ASSERT_EQ(client.destroy_id(client_channel, first).error, 0);
  rig.now = rig.connections.next_deadline();
  rig.connections.on_time();
  EXPECT_EQ(rig.connections.manager().counters().stale, 1U);
  EXPECT_EQ(waiting(), cm::kBacklogMax / 2 - 1);
  while (server_channel.readable()) {
    passive = server.expect_event(server_channel, EventNumber::kConnectRequest).id;
    ASSERT_EQ(server.accept(server_channel, passive, kServerUid, next_qpn++).error, 0);
  }
}

// A connection keeps the listening id's cookie if memory runs out while its request is delivered.
TEST_F(LocalSenders, AnEventOfARequestThatWasNeverDeliveredIsntTheListeners) {
  listen(kStream);
  const Id* id = nullptr;
  for (std::uint64_t serial = 0; id == nullptr && serial < 16; ++serial) {
    id = rig.connections.find(serial);
  }
  ASSERT_NE(id, nullptr);
  ASSERT_TRUE(id->listener);
  cm::Event event;
  event.cookie = id->serial;
  event.connection = 77;
  for (const auto kind : {cm::EventKind::kRejected, cm::EventKind::kExpired}) {
    event.kind = kind;
    deliver(rig.connections, event);
    EXPECT_FALSE(server_channel.readable());
  }
  ask_from(client, client_channel);
  server.expect_event(server_channel, EventNumber::kConnectRequest);
}

}  // namespace
}  // namespace uroce::control::cm_user
