// Connections that are made and ended for a long time leave nothing behind.

#include <gtest/gtest.h>
#include <malloc.h>

#include "tests/unit/cm_user/cm_program.h"

namespace uroce::control::cm_user {
namespace {

using enum EventNumber;

constexpr std::uint32_t kCycles = 10'000;
constexpr std::uint32_t kWarmUp = 1'000;  // until tables have grown to their final sizes
constexpr std::size_t kSlackBytes = 65'536;

// Two programs, so that their objects can be told apart.
class Cycles : public testing::Test {
 protected:
  void SetUp() override {
    listening = passive.create_id(passive_channel, 1);
    ASSERT_EQ(passive.bind(passive_channel, listening, "10.0.0.1", kPort).error, 0);
    ASSERT_EQ(passive.listen(passive_channel, listening).error, 0);
  }

  void connect_and_disconnect(std::uint32_t number) {
    const std::uint32_t id = active.create_id(active_channel, 2);
    ASSERT_EQ(active.resolve(active_channel, id, "10.0.0.1", kPort).error, 0);
    active.expect_event(active_channel, kAddrResolved);
    ASSERT_EQ(active.resolve_route(active_channel, id).error, 0);
    active.expect_event(active_channel, kRouteResolved);
    // A queue pair number isn't reused at once: the peer would assume a restart.
    const std::uint32_t qpn = 2 * number + 100;
    ASSERT_EQ(active.connect(active_channel, id, qpn).error, 0);
    const std::uint32_t accepted = passive.expect_event(passive_channel, kConnectRequest).id;
    ASSERT_EQ(passive.accept(passive_channel, accepted, 3, qpn + 1).error, 0);
    active.expect_event(active_channel, kConnectResponse);
    ASSERT_EQ(active.establish(active_channel, id).error, 0);
    passive.expect_event(passive_channel, kEstablished);
    ASSERT_EQ(active.disconnect(active_channel, id).error, 0);
    passive.expect_event(passive_channel, kDisconnected);
    ASSERT_EQ(passive.disconnect(passive_channel, accepted).error, 0);
    active.expect_event(active_channel, kDisconnected);
    ASSERT_EQ(active.destroy_id(active_channel, id).error, 0);
    ASSERT_EQ(passive.destroy_id(passive_channel, accepted).error, 0);
    end_timewait();
  }

  void end_timewait() {
    Service& service = rig.connections;
    while (service.next_deadline() != kNever) {
      rig.now = std::max(rig.now, service.next_deadline());
      service.on_time();
    }
  }

  Rig rig;
  CmProgram active{rig}, passive{rig};
  ProgramChannel active_channel = active.open_channel();
  ProgramChannel passive_channel = passive.open_channel();
  std::uint32_t listening = 0;
};

TEST_F(Cycles, TenThousandLeaveNothing) {
  std::size_t bytes = 0;
  for (std::uint32_t number = 0; number < kCycles; ++number) {
    connect_and_disconnect(number);
    if (HasFatalFailure()) {
      return;
    }
    if (number == kWarmUp) {
      bytes = ::mallinfo2().uordblks;
    }
  }
  EXPECT_LT(::mallinfo2().uordblks, bytes + kSlackBytes);
  Service& service = rig.connections;
  EXPECT_EQ(service.ids(), 1U) << "the listening id";
  EXPECT_EQ(service.ports().ports_taken(cm::PortSpace::kTcp), 1U);
  EXPECT_TRUE(service.manager().connections().empty());
  EXPECT_EQ(service.manager().counters().connected, 2U * kCycles) << "both ends";
}

}  // namespace
}  // namespace uroce::control::cm_user
