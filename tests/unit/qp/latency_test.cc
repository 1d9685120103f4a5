// How long messages take: known times give known percentiles, and what is timed is what happened.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "tests/unit/qp/qp_pair.h"

namespace uroce::test {
namespace {

using abi::WrOpcode;

constexpr Duration kOneUs = kNanosecondsPerMicrosecond;

// Percentiles are the middle of a bucket that is a quarter of its start wide.
void expect_near_time(Duration value, Duration exact) {
  EXPECT_GE(value, exact - exact / 8);
  EXPECT_LE(value, exact + exact / 8);
}

TEST(LatencyHistogram, PercentilesAreOffByAnEighthAtMost) {
  LatencyHistogram histogram;
  std::vector<Duration> values;
  std::mt19937_64 random(1);
  for (int i = 0; i < 10'000; ++i) {
    values.push_back(Duration{1} << (9 + random() % 20) | random() % 512);
    histogram.add(values.back());
  }
  std::sort(values.begin(), values.end());
  EXPECT_EQ(histogram.count(), values.size());
  EXPECT_EQ(histogram.max(), values.back());
  for (const unsigned permille : {500U, 990U, 999U}) {
    expect_near_time(histogram.percentile(permille), values[permille * values.size() / 1000 - 1]);
  }
}

TEST(LatencyHistogram, ABoundCountsWhatIsNotAboveIt) {
  LatencyHistogram histogram;
  for (unsigned power = LatencyHistogram::kPowerMin; power <= LatencyHistogram::kPowerMax;
       ++power) {
    const std::uint64_t before = histogram.count();
    histogram.add(Duration{1} << power);
    EXPECT_EQ(histogram.count_up_to(power), before + 1) << power;
    histogram.add((Duration{1} << power) + 1);
    EXPECT_EQ(histogram.count_up_to(power), before + 1) << power;
  }
}

TEST(LatencyHistogram, KnowsWhatWasAddedSince) {
  LatencyHistogram before, now;
  for (int i = 0; i < 100; ++i) {
    before.add(1'000'000);
  }
  now = before;
  EXPECT_EQ(now.since(before).count(), 0U);
  EXPECT_EQ(now.since(before).percentile(990), now.max()) << "of none it's the largest of all";
  for (int i = 0; i < 10; ++i) {
    now.add(2'000);
  }
  const LatencyHistogram added = now.since(before);
  EXPECT_EQ(added.count(), 10U);
  EXPECT_EQ(added.sum(), 20'000U);
  expect_near_time(added.percentile(990), 2'000);
}

// A queue pair that is in neither of two sums comes back with all that it ever had.
TEST(LatencyHistogram, WhatWasMissingForAWhileIsNotNew) {
  LatencyHistogram whole, lacking;
  for (int i = 0; i < 100; ++i) {
    whole.add(1'000'000);
  }
  lacking.add(2'000);
  EXPECT_EQ(lacking.since(whole).count(), 1U) << "and nothing below 0";
  EXPECT_EQ(lacking.since(whole).sum(), 0U);
  LatencyHistogram before = whole;
  before.keep_most(lacking);
  whole.add(2'000);
  EXPECT_EQ(whole.since(before).count(), 0U);
}

TEST(LatencyHistogram, NothingIsTooShortOrTooLong) {
  LatencyHistogram histogram;
  EXPECT_EQ(histogram.percentile(500), 0U);
  histogram.add(0);
  EXPECT_EQ(histogram.percentile(999), 0U) << "no more than the largest one";
  histogram.add(UINT64_MAX);
  EXPECT_EQ(histogram.percentile(999), UINT64_MAX);
  EXPECT_EQ(histogram.count(), 2U);
  EXPECT_EQ(histogram.count_up_to(LatencyHistogram::kPowerMax), 1U);
}

std::uint64_t timed_count(const Endpoint& end, LatencyOf of) {
  const LatencyHistogram* const histogram = const_cast<Endpoint&>(end).qp().latencies().find(of);
  return histogram == nullptr ? 0 : histogram->count();
}

void post_timed(QpPair& pair, std::uint64_t id) {
  pair.a.post_send(rdma_wr(id, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 8)});
}

// A WRITE that waits in the queue for so long, and whose answer takes so long.
void write_taking(QpPair& pair, Duration wait, Duration answer) {
  post_timed(pair, 1);
  pair.a.ring(pair.now);
  pair.now += wait;
  for (auto& frame : pair.transmit(pair.a)) {
    EXPECT_EQ(pair.deliver(pair.b, *frame), Drop::kNone);
  }
  const auto answers = pair.transmit(pair.b);
  pair.now += answer;
  for (const auto& frame : answers) {
    EXPECT_EQ(pair.deliver(pair.a, *frame), Drop::kNone);
  }
  EXPECT_TRUE(pair.a.poll_send());
}

TEST(Latency, KnownTimesGiveKnownPercentiles) {
  QpPair pair;
  for (Duration i = 1; i <= 1'000; ++i) {
    write_taking(pair, i * kOneUs, 2 * i * kOneUs);
  }
  const auto expect = [&](LatencyOf of, Duration unit) {
    const LatencyHistogram* const histogram = pair.a.qp().latencies().find(of);
    ASSERT_NE(histogram, nullptr);
    EXPECT_EQ(histogram->count(), 1'000U);
    expect_near_time(histogram->percentile(500), 500 * unit);
    expect_near_time(histogram->percentile(990), 990 * unit);
    expect_near_time(histogram->percentile(999), 999 * unit);
    EXPECT_EQ(histogram->max(), 1'000 * unit);
    EXPECT_EQ(histogram->sum(), 500'500 * unit);
  };
  expect(LatencyOf::kQueued, kOneUs);
  expect(LatencyOf::kRoundTrip, 2 * kOneUs);
  expect(LatencyOf::kWrite, 3 * kOneUs);
  EXPECT_EQ(pair.b.qp().latencies().find(LatencyOf::kRoundTrip), nullptr);
}

TEST(Latency, EachOperationHasItsOwn) {
  PairConfig config;
  config.a.signal_all = true;
  QpPair pair(config);
  const std::pair<WrOpcode, LatencyOf> kinds[] = {
      {WrOpcode::kSend, LatencyOf::kSend},
      {WrOpcode::kSendWithImm, LatencyOf::kSend},
      {WrOpcode::kRdmaWrite, LatencyOf::kWrite},
      {WrOpcode::kRdmaRead, LatencyOf::kRead},
      {WrOpcode::kAtomicFetchAndAdd, LatencyOf::kAtomic},
      {WrOpcode::kAtomicCmpAndSwp, LatencyOf::kAtomic},
      {WrOpcode::kFlush, LatencyOf::kOther}};
  for (const auto& [opcode, of] : kinds) {
    pair.b.post_recv(1, std::array{pair.b.sge(0, 8)});
    const std::uint64_t before = timed_count(pair.a, of);
    abi::SendWr wr = rdma_wr(1, opcode, pair.b, 0);
    pair.a.post_send(wr, std::array{pair.a.sge(0, 8)});
    pair.run();
    const auto cqe = pair.a.poll_send();
    ASSERT_TRUE(cqe);
    if (opcode != WrOpcode::kFlush) {  // which this memory isn't registered for
      EXPECT_EQ(cqe->status, abi::WcStatus::kSuccess);
      EXPECT_EQ(timed_count(pair.a, of), before + 1);
    }
  }
  EXPECT_EQ(timed_count(pair.a, LatencyOf::kOther), 0U) << "what failed isn't timed";
}

TEST(Latency, OneMessageAtATime) {
  QpPair pair;
  for (std::uint64_t id = 0; id < 10; ++id) {
    post_timed(pair, id);
  }
  EXPECT_EQ(pair.a.qp().outstanding(), 10U) << "also those that nobody has looked at";
  pair.a.ring(pair.now);
  pair.run();
  EXPECT_EQ(timed_count(pair.a, LatencyOf::kWrite), 1U);
  EXPECT_EQ(pair.a.qp().outstanding(), 0U);
  post_timed(pair, 10);
  pair.a.ring(pair.now);
  pair.run();
  EXPECT_EQ(timed_count(pair.a, LatencyOf::kWrite), 2U);
}

TEST(Latency, NoMoreIsOutstandingThanFits) {
  QpPair pair;
  pair.a.sends.control.producer.value = 0x7000'0000;  // a program that says nonsense
  EXPECT_EQ(pair.a.qp().outstanding(), PairConfig{}.a.queues.send_entries);
}

// One timed message in each of two batches of two: the first of the one, the last of the other.
TEST(Latency, AnotherPlaceOfTheBatchEachTime) {
  MessageTimer timer;
  timer.found(10, 12, 5);
  EXPECT_TRUE(timer.times(10));
  timer.found(12, 14, 6);
  EXPECT_TRUE(timer.times(10)) << "it is under way";
  EXPECT_EQ(timer.taken(15), 10U);
  timer.stop();
  EXPECT_FALSE(timer.times(10));
  timer.found(14, 14, 7);
  EXPECT_FALSE(timer.times(14)) << "nothing was found";
  timer.found(UINT32_MAX, 1, 8);
  EXPECT_TRUE(timer.times(0)) << "indices come round";
}

TEST(Latency, WhatIsFlushedIsNotTimed) {
  QpPair pair;
  post_timed(pair, 1);
  pair.a.ring(pair.now);
  pair.a.to_error(pair.now);
  EXPECT_EQ(timed_count(pair.a, LatencyOf::kWrite), 0U);
  pair.a.modify({.state = QpState::kReset}, kQpMaskState, pair.now);
  pair.b.modify({.state = QpState::kReset}, kQpMaskState, pair.now);
  pair.connect(pair.a);
  pair.connect(pair.b);
  while (pair.a.poll_send()) {
  }
  write_taking(pair, 0, 5 * kOneUs);
  EXPECT_EQ(timed_count(pair.a, LatencyOf::kWrite), 1U);
}

TEST(Latency, SwitchedOffTakesNoMemory) {
  PairConfig config;
  config.a.measures_latency = false;
  QpPair pair(config);
  write_taking(pair, kOneUs, kOneUs);
  for (std::size_t of = 0; of < kLatencyCount; ++of) {
    EXPECT_EQ(pair.a.qp().latencies().find(static_cast<LatencyOf>(of)), nullptr);
  }
}

TEST(Latency, SumsCountBoth) {
  Latencies one, other;
  one.add(LatencyOf::kRead, 3 * kOneUs);
  other.add(LatencyOf::kRead, 5 * kOneUs);
  other.add(LatencyOf::kSend, kOneUs);
  one += other;
  EXPECT_EQ(one.find(LatencyOf::kRead)->count(), 2U);
  EXPECT_EQ(one.find(LatencyOf::kRead)->sum(), 8 * kOneUs);
  EXPECT_EQ(one.find(LatencyOf::kRead)->max(), 5 * kOneUs);
  EXPECT_EQ(one.find(LatencyOf::kSend)->count(), 1U);
  EXPECT_EQ(one.find(LatencyOf::kAtomic), nullptr);
}

}  // namespace
}  // namespace uroce::test
