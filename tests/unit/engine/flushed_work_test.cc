// Queue pairs in ERR, whose work requests are flushed: a turn has a bounded number of them.

#include <gtest/gtest.h>

#include <cstdint>

#include "dataplane/engine/worker_state.h"
#include "tests/unit/engine/many_pairs.h"

namespace uroce::test {
namespace {

constexpr std::uint32_t kFlushing = 4 * kFlushesMax;

std::uint32_t count_flushed(ManyPairs& pairs) {
  std::uint32_t flushed = 0;
  for (Endpoint& sender : pairs.senders) {
    while (const auto cqe = sender.poll_send()) {
      EXPECT_EQ(cqe->status, abi::WcStatus::kWrFlushErr);
      ++flushed;
    }
  }
  return flushed;
}

// A program rings for all of its queue pairs at once.
TEST(FlushedWork, IsBoundedPerTurnAndContinuesInTheNext) {
  ManyPairs pairs(kFlushing);
  Worker& worker = pairs.daemon.station.worker;
  for (std::uint32_t i = 0; i < kFlushing; ++i) {
    pairs.senders[i].to_error(pairs.daemon.now);
    pairs.senders[i].post_send(send_wr(1, abi::WrOpcode::kSend), {});
    pairs.daemon.station.ring(pairs.slots[i]);
  }
  std::uint32_t flushed = 0;
  for (std::uint32_t turn = 1; turn <= kFlushing / kFlushesMax; ++turn) {
    worker.poll(pairs.daemon.now);
    flushed += count_flushed(pairs);
    EXPECT_EQ(flushed, turn * kFlushesMax);
    EXPECT_EQ(worker.next_deadline() == kNever, flushed == kFlushing);
    ++pairs.daemon.now;
  }
}

// A program rings all the time for queue pairs that have nothing to flush.
TEST(FlushedWork, DoesNotWaitForQueuePairsThatRingAgainAndAgain) {
  ManyPairs pairs(kFlushing);
  Worker& worker = pairs.daemon.station.worker;
  for (Endpoint& sender : pairs.senders) {
    sender.to_error(pairs.daemon.now);
  }
  constexpr std::uint32_t kTurnsMax = kFlushing / kFlushesMax + 1;
  Endpoint& victim = pairs.senders.back();
  victim.post_send(send_wr(1, abi::WrOpcode::kSend), {});
  std::uint32_t turns = 0;
  for (; turns < kTurnsMax && count_flushed(pairs) == 0; ++turns) {
    for (std::uint32_t i = 0; i < kFlushing; ++i) {
      pairs.daemon.station.ring(pairs.slots[i]);
    }
    worker.poll(pairs.daemon.now);
    ++pairs.daemon.now;
  }
  EXPECT_LT(turns, kTurnsMax);
}

// A program has rung for so many that a turn flushes a small part of them; another one's queue pair
// waits for a receiver that wasn't ready.
TEST(FlushedWork, DoesNotDelayOthersDeadlines) {
  constexpr std::uint32_t kRinging = 1'000;
  ManyPairs pairs(kRinging / 2);
  OneDaemon& daemon = pairs.daemon;
  Worker& worker = daemon.station.worker;
  for (auto* const ends : {&pairs.senders, &pairs.receivers}) {
    for (Endpoint& end : *ends) {
      end.to_error(daemon.now);
    }
  }
  daemon.post(send_wr(1, abi::WrOpcode::kSend), {});
  daemon.settle();
  const Time due = daemon.pair.a.qp().deadline();
  ASSERT_NE(due, kNever);
  daemon.pair.b.post_recv(2, {});
  for (const std::uint32_t slot : pairs.slots) {
    daemon.station.ring(slot);
    daemon.station.ring(slot + 1);  // its receiver
  }
  constexpr Duration kTurns = 2 * kRinging / kDoorbellsMax;
  const Duration step = (due - daemon.now) / kTurns;
  for (; daemon.now < due; daemon.now += step) {
    worker.poll(daemon.now);
  }
  EXPECT_LE(worker.next_deadline(), due) << "there is more to flush";
  worker.poll(daemon.now);
  EXPECT_GT(daemon.pair.a.qp().deadline(), daemon.now);
  worker.poll(daemon.now);
  EXPECT_TRUE(daemon.pair.b.poll_recv());
}

}  // namespace
}  // namespace uroce::test
