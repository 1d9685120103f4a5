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
  void ask_from(CmProgram& program, const ProgramChannel& channel) {
    const std::uint32_t id = program.create_id(channel, kClientUid);
    ASSERT_EQ(program.resolve(channel, id, "10.0.0.1", kPort).error, 0);
    program.expect_event(channel, EventNumber::kAddrResolved);
    ASSERT_EQ(program.resolve_route(channel, id).error, 0);
    program.expect_event(channel, EventNumber::kRouteResolved);
    ASSERT_EQ(program.connect(channel, id, next_qpn++).error, 0);
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

// A connection has the listening id's cookie until its request is delivered.
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
