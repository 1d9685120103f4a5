#include "dataplane/engine/threads/run_delay.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/unit/engine/worker_fixture.h"

namespace uroce::test {
namespace {

constexpr Duration kMs = kNanosecondsPerMillisecond;

TEST(RunDelay, ConsecutiveTurnsShowNone) {
  RunDelay delay;
  EXPECT_EQ(delay.turn_begins(100 * kMs), 0U);
  EXPECT_EQ(delay.turn_begins(100 * kMs + 50'000), 0U);
  EXPECT_EQ(delay.turn_begins(101 * kMs), 0U);
}

TEST(RunDelay, AGapBetweenTurnsCounts) {
  RunDelay delay;
  (void)delay.turn_begins(100 * kMs);
  EXPECT_EQ(delay.turn_begins(140 * kMs), 40 * kMs);
  EXPECT_EQ(delay.turn_begins(140 * kMs + 1), 0U);
}

TEST(RunDelay, OnlyOversleepingCountsNotSleep) {
  RunDelay delay;
  (void)delay.turn_begins(100 * kMs);
  delay.sleeps_until(600 * kMs);
  EXPECT_EQ(delay.turn_begins(300 * kMs), 0U);  // woken early
  delay.sleeps_until(600 * kMs);
  EXPECT_EQ(delay.turn_begins(600 * kMs + 40'000), 0U);
  delay.sleeps_until(700 * kMs);
  EXPECT_EQ(delay.turn_begins(1'700 * kMs), 1'000 * kMs);
}

// Frames that arrived while the worker was away are read before anything is retransmitted: the
// answer is behind more frames than a turn reads.
TEST(Worker, ReadsWaitingFramesBeforeItServesDeadlinesAfterAnAbsence) {
  // Given a request of a's that b holds back until it has sent two bursts of its own,
  Stations stations;
  stations.post_write(1, 8, 500'000);
  stations.a.worker.poll(stations.now);
  Frame* request = nullptr;
  ASSERT_EQ(stations.ports.second->rx_burst(0, &request, 1, stations.now), 1U);
  const abi::Sge bulk = stations.pair.b.sge(0, 100'000);
  stations.pair.b.post_send(rdma_wr(2, abi::WrOpcode::kRdmaWrite, stations.pair.a, 0), {&bulk, 1});
  stations.b.ring();
  stations.b.worker.poll(stations.now);
  stations.b.worker.poll(stations.now);
  ASSERT_EQ(stations.ports.first->tx_burst(0, &request, 1, stations.now), 1U);
  stations.b.worker.poll(stations.now);
  // when a's worker is away for longer than the timer runs,
  stations.now += 500 * kMs;
  stations.a.worker.was_descheduled(500 * kMs);
  for (int turn = 0; turn < 4; ++turn) {
    stations.a.worker.poll(stations.now);
  }
  // then the answer comes first.
  EXPECT_EQ(stations.pair.a.qp().counters().local_ack_timeout_err, 0U);
  EXPECT_TRUE(stations.pair.a.poll_send());
  EXPECT_EQ(stations.a.worker.counters().absences, 1U);
  EXPECT_EQ(stations.a.worker.counters().absent_us, 500'000U);
}

// Deadlines are served in the end, even if full bursts keep arriving.
// The turns from an absence to the timeout of a request that was lost, while whole bursts arrive.
// `again`: each turn is preceded by such an absence.
int turns_to_timeout(Duration again) {
  Stations stations({}, {.wire_entries = 8'192, .frames = 16'384});
  stations.post_write(1, 8, 500'000);
  stations.a.worker.poll(stations.now);
  Frame* lost = nullptr;
  EXPECT_EQ(stations.ports.second->rx_burst(0, &lost, 1, stations.now), 1U);
  stations.ports.second->release(&lost, 1);
  std::array<Frame*, 32> flood;
  stations.now += 500 * kMs;
  stations.a.worker.was_descheduled(500 * kMs);
  int turns = 0;
  for (; stations.pair.a.qp().counters().local_ack_timeout_err == 0; ++turns) {
    if (turns == 100) {
      break;
    }
    EXPECT_EQ(stations.ports.second->allocate(flood.data(), flood.size()), flood.size());
    for (Frame* frame : flood) {
      frame->length = 60;  // of an unknown protocol
    }
    EXPECT_EQ(stations.ports.second->tx_burst(0, flood.data(), flood.size(), stations.now),
              flood.size());
    stations.now += again;
    stations.a.worker.was_descheduled(again);
    stations.a.worker.poll(stations.now);
  }
  return turns;
}

TEST(Worker, ServesDeadlinesAfterAnAbsenceUnderAFlood) {
  const int turns = turns_to_timeout(0);
  EXPECT_GE(turns, 60);
  EXPECT_LT(turns, 100);
}

TEST(Worker, ServesDeadlinesUnderAFloodThoughAbsencesRepeat) {
  EXPECT_LT(turns_to_timeout(2 * kMs), 100);
}

}  // namespace
}  // namespace uroce::test
