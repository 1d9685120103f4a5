// The latencies that a worker knows, including those of messages without frames, and of removed
// queue pairs.

#include <gtest/gtest.h>

#include "tests/unit/engine/many_pairs.h"

namespace uroce::test {
namespace {

constexpr Duration kClockLater = 700;

Time clock_reading;
Time worker_clock() { return clock_reading; }

// A turn's time stands still while a message is copied from memory to memory, so its end is read
// from the clock.
TEST(WorkerLatency, DirectMessagesCount) {
  OneDaemon daemon(true, small_memory(), nullptr, worker_clock);
  clock_reading = daemon.now + kClockLater;
  daemon.post_write(1, 8);
  daemon.settle();
  ASSERT_TRUE(daemon.pair.a.poll_send());
  EXPECT_EQ(daemon.pair.a.qp().counters().direct_messages, 1U);
  const Latencies& latencies = daemon.pair.a.qp().latencies();
  ASSERT_NE(latencies.find(LatencyKind::kWrite), nullptr);
  EXPECT_EQ(latencies.find(LatencyKind::kWrite)->max(), kClockLater);
  EXPECT_EQ(latencies.find(LatencyKind::kQueued)->max(), 0U);
  EXPECT_EQ(latencies.find(LatencyKind::kRoundTrip), nullptr) << "no round trip took place";
}

// The worker sleeps, or is busy with others, while the program waits.
TEST(WorkerLatency, TheWaitForALateWorkerCounts) {
  constexpr Duration kLate = 5 * kNanosecondsPerMillisecond;
  for (const bool direct : {true, false}) {
    OneDaemon daemon(direct, small_memory(), nullptr, worker_clock);
    daemon.pair.a.sends.clock = worker_clock;
    clock_reading = daemon.now;
    daemon.post_write(1, 8);
    daemon.now += kLate;
    clock_reading = daemon.now + kClockLater;
    daemon.settle();
    ASSERT_TRUE(daemon.pair.a.poll_send());
    const Latencies& latencies = daemon.pair.a.qp().latencies();
    ASSERT_NE(latencies.find(LatencyKind::kWrite), nullptr);
    EXPECT_EQ(latencies.find(LatencyKind::kQueued)->max(), kLate);
    EXPECT_EQ(latencies.find(LatencyKind::kWrite)->max(), kLate + kClockLater);
  }
}

// Queue pairs whose doorbells ring in one turn, again and again, with a message each.
TEST(WorkerLatency, FewerMessagesAreTimedWhenManyQueuePairsRing) {
  constexpr std::uint32_t kFew = 8;
  constexpr std::uint64_t kMessages = 32, kTimedOfMany = kMessages / (MessageTimer::kPassing + 1);
  for (const std::uint32_t count : {kFew, kFew + 1}) {
    ManyPairs pairs(count);
    for (std::uint64_t id = 0; id < kMessages; ++id) {
      for (std::uint32_t i = 0; i < count; ++i) {
        pairs.post_write(i, id);
      }
      pairs.daemon.settle();
    }
    for (Endpoint& sender : pairs.senders) {
      EXPECT_EQ(sender.qp().counters().direct_messages, kMessages);
      EXPECT_EQ(sender.qp().latencies().find(LatencyKind::kWrite)->count(),
                count == kFew ? kMessages : kTimedOfMany);
    }
  }
}

TEST(WorkerLatency, LatenciesOfRemovedQueuePairsAreKept) {
  OneDaemon daemon(true, small_memory());
  daemon.post_write(1, 8);
  daemon.settle();
  EXPECT_EQ(daemon.station.worker.latencies(0).find(LatencyKind::kWrite), nullptr);
  daemon.station.worker.remove_qp(daemon.pair.a.qp());
  ASSERT_NE(daemon.station.worker.latencies(0).find(LatencyKind::kWrite), nullptr);
  EXPECT_EQ(daemon.station.worker.latencies(0).find(LatencyKind::kWrite)->count(), 1U);
}

}  // namespace
}  // namespace uroce::test
