// Connections that are destroyed while events of them wait to be taken.

#include <algorithm>

#include "base/sanitized.h"
#include "base/time/monotonic_clock.h"
#include "tests/unit/cm/pair.h"

namespace uroce::control::cm {
namespace {

class QueuedEvents : public Pair {
 protected:
  static constexpr std::uint32_t kOfEachListener = 2'000;  // a sender may have 2,048
  static constexpr std::uint32_t kListeners = 4;
  static constexpr std::uint32_t kRequests = kOfEachListener * kListeners;

  void SetUp() override {
    for (std::uint32_t i = 0; i < kListeners; ++i) {
      ASSERT_TRUE(passive.manager.listen({.service_id = kService + i}, kBacklogMax, 77));
    }
  }
  // The event isn't taken.
  void ask_for(std::uint32_t number) {
    ConnectParameters wanted = request(100 + number);
    wanted.service_id = kService + number % kListeners;
    ASSERT_TRUE(active.manager.connect(wanted, now));
    passive.manager.on_mad(passive.route, active.manager.next_send()->mad, now);
  }
  void take_events() {
    while (auto event = passive.manager.next_event()) {
      passive.events.push_back(*event);
    }
  }
  // Returns what it takes to destroy `kRequests`, whose events have been taken or not.
  Duration destroy_all(bool taken) {
    for (std::uint32_t i = 0; i < kRequests; ++i) {
      ask_for(i);
    }
    if (taken) {
      take_events();
      EXPECT_EQ(passive.events.size(), kRequests);
    }
    auto ids = passive.manager.connection_ids();
    std::sort(ids.begin(), ids.end());  // they are random: not in order of arrival
    const Duration begun = thread_processor_time();
    for (const ConnectionId id : ids) {
      passive.manager.destroy(id, now);
    }
    const Duration took = thread_processor_time() - begun;
    now += 1'000 * kNanosecondsPerSecond;
    passive.manager.on_time(now);
    EXPECT_TRUE(passive.manager.connections().empty());
    passive.events.clear();
    return took;
  }
};

TEST_F(QueuedEvents, OfADestroyedConnectionArentReported) {
  for (std::uint32_t i = 0; i < 3; ++i) {
    ask_for(i);
  }
  take_events();
  const ConnectionId kept = passive.events[0].connection, destroyed = passive.events[1].connection;
  passive.events.clear();
  ask_for(3);
  ask_for(4);
  // Its sender withdraws it: a second event, behind others.
  for (const auto& info : passive.manager.connections()) {
    passive.manager.on_mad(passive.route,
                           build_mad(1, Rej{.local_id = info.remote_id,
                                            .remote_id = info.id,
                                            .message = RejMessage::kReq,
                                            .reason = RejectReason::kConsumerDefined,
                                            .info = {},
                                            .private_data = {}}),
                           now);
  }
  passive.manager.destroy(destroyed, now);
  passive.manager.set_cookie(kept, 99);
  take_events();
  EXPECT_EQ(std::count_if(passive.events.begin(), passive.events.end(),
                          [](const Event& event) { return event.kind == EventKind::kRequest; }),
            2);
  EXPECT_EQ(std::count_if(passive.events.begin(), passive.events.end(),
                          [](const Event& event) { return event.kind == EventKind::kRejected; }),
            4);
  for (const Event& event : passive.events) {
    EXPECT_NE(event.connection, destroyed);
    EXPECT_EQ(event.cookie, event.connection == kept ? 99U : 77U);
  }
}

// Before, each looked through the events of all.
TEST_F(QueuedEvents, OfOthersDontMakeItCostlyToDestroyAConnection) {
  const Duration alone = destroy_all(true), among_events = destroy_all(false);
  RecordProperty("alone_us", static_cast<int>(alone / 1'000));
  RecordProperty("among_events_us", static_cast<int>(among_events / 1'000));
  EXPECT_FALSE(passive.manager.next_event()) << "all are destroyed";
  if (!kSanitized) {
    EXPECT_LT(among_events, 5 * alone + 50 * kNanosecondsPerMillisecond) << "alone: " << alone;
  }
}

}  // namespace
}  // namespace uroce::control::cm
