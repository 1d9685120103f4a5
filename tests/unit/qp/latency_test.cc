// Message latencies: that the measured times are the actual ones.

#include <gtest/gtest.h>

#include <array>

#include "tests/unit/qp/near_time.h"
#include "tests/unit/qp/qp_pair.h"

namespace uroce::test {
namespace {

using abi::WrOpcode;

constexpr Duration kOneUs = kNanosecondsPerMicrosecond;

std::uint64_t timed_count(const Endpoint& end, LatencyKind of) {
  const LatencyHistogram* const histogram = const_cast<Endpoint&>(end).qp().latencies().find(of);
  return histogram == nullptr ? 0 : histogram->count();
}

void post_timed(QpPair& pair, std::uint64_t id) {
  pair.a.post_send(rdma_wr(id, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 8)});
}

// A WRITE that waits in the queue for `wait`, and is answered after `answer`.
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
  const auto expect = [&](LatencyKind of, Duration unit) {
    const LatencyHistogram* const histogram = pair.a.qp().latencies().find(of);
    ASSERT_NE(histogram, nullptr);
    EXPECT_EQ(histogram->count(), 1'000U);
    expect_near_time(histogram->percentile(500), 500 * unit);
    expect_near_time(histogram->percentile(990), 990 * unit);
    expect_near_time(histogram->percentile(999), 999 * unit);
    EXPECT_EQ(histogram->max(), 1'000 * unit);
    EXPECT_EQ(histogram->sum(), 500'500 * unit);
  };
  expect(LatencyKind::kQueued, kOneUs);
  expect(LatencyKind::kRoundTrip, 2 * kOneUs);
  expect(LatencyKind::kWrite, 3 * kOneUs);
  EXPECT_EQ(pair.b.qp().latencies().find(LatencyKind::kRoundTrip), nullptr);
}

TEST(Latency, EachOperationHasItsOwnHistogram) {
  PairConfig config;
  config.a.signal_all = true;
  QpPair pair(config);
  const std::pair<WrOpcode, LatencyKind> kinds[] = {
      {WrOpcode::kSend, LatencyKind::kSend},
      {WrOpcode::kSendWithImm, LatencyKind::kSend},
      {WrOpcode::kRdmaWrite, LatencyKind::kWrite},
      {WrOpcode::kRdmaRead, LatencyKind::kRead},
      {WrOpcode::kAtomicFetchAndAdd, LatencyKind::kAtomic},
      {WrOpcode::kAtomicCmpAndSwp, LatencyKind::kAtomic},
      {WrOpcode::kFlush, LatencyKind::kOther}};
  for (const auto& [opcode, of] : kinds) {
    pair.b.post_recv(1, std::array{pair.b.sge(0, 8)});
    const std::uint64_t before = timed_count(pair.a, of);
    abi::SendWr wr = rdma_wr(1, opcode, pair.b, 0);
    pair.a.post_send(wr, std::array{pair.a.sge(0, 8)});
    pair.run();
    const auto cqe = pair.a.poll_send();
    ASSERT_TRUE(cqe);
    if (opcode != WrOpcode::kFlush) {  // the memory isn't registered for it
      EXPECT_EQ(cqe->status, abi::WcStatus::kSuccess);
      EXPECT_EQ(timed_count(pair.a, of), before + 1);
    }
  }
  EXPECT_EQ(timed_count(pair.a, LatencyKind::kOther), 0U) << "failures aren't timed";
}

TEST(Latency, TimesOneMessageAtATime) {
  QpPair pair;
  for (std::uint64_t id = 0; id < 10; ++id) {
    post_timed(pair, id);
  }
  EXPECT_EQ(pair.a.qp().unretired(), 10U) << "including those that the card hasn't seen yet";
  pair.a.ring(pair.now);
  pair.run();
  EXPECT_EQ(timed_count(pair.a, LatencyKind::kWrite), 1U);
  EXPECT_EQ(pair.a.qp().unretired(), 0U);
  post_timed(pair, 10);
  pair.a.ring(pair.now);
  pair.run();
  EXPECT_EQ(timed_count(pair.a, LatencyKind::kWrite), 2U);
}

TEST(Latency, OutstandingIsBoundedByTheRing) {
  QpPair pair;
  pair.a.sends.control.producer.value = 0x7000'0000;  // a nonsense index
  EXPECT_EQ(pair.a.qp().unretired(), PairConfig{}.a.queues.send_entries);
}

constexpr abi::PostStamp kNoStamp{};

TEST(MessageTimer, SkipsABoundedNumberOfMessages) {
  MessageTimer timer;
  EXPECT_TRUE(timer.times_next());
  EXPECT_FALSE(timer.skip(1)) << "the first one is timed";
  timer.found(0, 1, kNoStamp, 5);
  timer.stop();
  EXPECT_TRUE(timer.skip(MessageTimer::kPassing - 1));
  EXPECT_FALSE(timer.times_next());
  EXPECT_TRUE(timer.skip(100)) << "a batch is skipped as a whole";
  EXPECT_TRUE(timer.times_next());
  EXPECT_FALSE(timer.skip(1));
}

// One timed message in each of two batches of two: the last of the first, the first of the second.
TEST(MessageTimer, ADifferentPlaceInTheBatchEachTime) {
  MessageTimer timer;
  EXPECT_TRUE(timer.idle());
  (void)timer.next_stamp(4);
  timer.found(10, 12, kNoStamp, 5);
  EXPECT_FALSE(timer.idle());
  EXPECT_TRUE(timer.times(11));
  EXPECT_EQ(timer.taken(15), 10U);
  timer.stop();
  EXPECT_TRUE(timer.idle());
  EXPECT_FALSE(timer.times(11));
  (void)timer.next_stamp(15);
  timer.found(UINT32_MAX - 1, 0, kNoStamp, 16);
  EXPECT_TRUE(timer.times(UINT32_MAX - 1));
  timer.stop();
  (void)timer.next_stamp(17);
  timer.found(UINT32_MAX, 1, kNoStamp, 18);
  EXPECT_TRUE(timer.times(0)) << "indices wrap";
}

// How long the timed one of the work requests [10, 14) has taken at time 200, if the stamp was
// requested at 100 and they were found at 150; its index must be `index`.
Duration taken_with(const abi::PostStamp& stamp, std::uint32_t index) {
  MessageTimer timer;
  EXPECT_EQ(timer.next_stamp(100), 1U);
  timer.found(10, 14, stamp, 150);
  EXPECT_TRUE(timer.times(index));
  return timer.taken(200);
}

TEST(MessageTimer, AStampIsTheStart) {
  EXPECT_EQ(taken_with({.number = 1, .index = 12, .time_ns = 100}, 12), 100U);
  EXPECT_EQ(taken_with({.number = 1, .index = 13, .time_ns = 149}, 13), 51U);
}

TEST(MessageTimer, ANonsenseStampIsIgnored) {
  constexpr Duration kSinceFound = 50;
  EXPECT_EQ(taken_with({.number = 1, .index = 12, .time_ns = 99}, 12), kSinceFound)
      << "before it was requested";
  EXPECT_EQ(taken_with({.number = 1, .index = 12, .time_ns = 151}, 12), kSinceFound)
      << "in the future";
  EXPECT_EQ(taken_with({.number = 1, .index = 12, .time_ns = kNever}, 12), kSinceFound);
  EXPECT_EQ(taken_with({.number = 1, .index = 14, .time_ns = 120}, 11), kSinceFound)
      << "not found yet";
  EXPECT_EQ(taken_with({.number = 1, .index = 9, .time_ns = 120}, 11), kSinceFound)
      << "found before";
  EXPECT_EQ(taken_with({.number = 0, .index = 12, .time_ns = 120}, 11), kSinceFound)
      << "the stamp of another request";
  EXPECT_EQ(taken_with({.number = 2, .index = 12, .time_ns = 120}, 11), kSinceFound);
  MessageTimer never_asked;
  never_asked.found(0, 1, kNoStamp, 150);
  EXPECT_EQ(never_asked.taken(200), kSinceFound);
}

Time program_time;
Time program_clock() { return program_time; }

// A program that stamps its posts on request.
QpPair& stamping(QpPair& pair) {
  pair.a.sends.clock = program_clock;
  return pair;
}

void expect_one(QpPair& pair, LatencyKind of, Duration took) {
  const LatencyHistogram* const histogram = pair.a.qp().latencies().find(of);
  ASSERT_NE(histogram, nullptr);
  EXPECT_EQ(histogram->count(), 1U);
  EXPECT_EQ(histogram->max(), took);
}

// Posts a WRITE that isn't noticed for `unseen`; then it waits and is answered as in
// write_taking().
void write_unseen(QpPair& pair, Duration unseen, Duration wait, Duration answer) {
  program_time = pair.now;
  post_timed(pair, 0);
  pair.now += unseen;
  pair.a.ring(pair.now);
  pair.now += wait;
  for (auto& frame : pair.transmit(pair.a)) {
    EXPECT_EQ(pair.deliver(pair.b, *frame), Drop::kNone);
  }
  pair.now += answer;
  for (const auto& frame : pair.transmit(pair.b)) {
    EXPECT_EQ(pair.deliver(pair.a, *frame), Drop::kNone);
  }
  EXPECT_TRUE(pair.a.poll_send());
}

TEST(Latency, BeginsWithThePost) {
  QpPair pair;
  write_unseen(stamping(pair), 7 * kOneUs, 3 * kOneUs, 2 * kOneUs);
  expect_one(pair, LatencyKind::kQueued, 10 * kOneUs);
  expect_one(pair, LatencyKind::kWrite, 12 * kOneUs);
  for (std::uint64_t i = 2; i <= 10; ++i) {
    write_unseen(pair, i * kOneUs, 0, 0);
    EXPECT_EQ(timed_count(pair.a, LatencyKind::kWrite), i) << "a stamp is requested for each";
  }
  EXPECT_EQ(pair.a.qp().latencies().find(LatencyKind::kQueued)->sum(), 64 * kOneUs);
}

TEST(Latency, WithoutAStampBeginsWhenTheCardSeesIt) {
  QpPair pair;
  write_unseen(pair, 7 * kOneUs, 3 * kOneUs, 2 * kOneUs);
  expect_one(pair, LatencyKind::kQueued, 3 * kOneUs);
  expect_one(pair, LatencyKind::kWrite, 5 * kOneUs);
}

// The card requests one stamp, and gets the time of the first post after that; for other posts the
// program doesn't read the clock.
TEST(Latency, OnlyRequestedPostsAreStamped) {
  QpPair pair;
  const abi::RingIndex& answer = stamping(pair).a.sends.control.producer;
  const std::uint32_t asked = pair.a.sends.control.producer.stamp_wanted;
  EXPECT_NE(asked, answer.stamp_given) << "requested since the queue pair may send";
  program_time = pair.now + 1;
  post_timed(pair, 1);
  EXPECT_EQ(answer.stamp_given, asked);
  EXPECT_EQ(answer.stamped, 0U);
  program_time = pair.now + 2;
  post_timed(pair, 2);
  pair.now += kOneUs;
  pair.a.ring(pair.now);
  post_timed(pair, 3);
  EXPECT_EQ(answer.stamp_ns, pair.now - kOneUs + 1);
  pair.run();
  EXPECT_EQ(timed_count(pair.a, LatencyKind::kWrite), 1U);
  program_time = pair.now;
  post_timed(pair, 4);
  EXPECT_EQ(answer.stamped, 3U);
  EXPECT_EQ(answer.stamp_ns, pair.now);
}

// Then one of sixteen is timed, from its post on.
TEST(Latency, FewerMessagesAreTimedWhenManyQueuePairsAreBusy) {
  constexpr std::uint64_t kTimed = 10, kOf = MessageTimer::kPassing + 1;
  QpPair pair;
  stamping(pair);
  pair.a.many_doorbells = true;
  for (std::uint64_t i = 0; i < kTimed * kOf; ++i) {
    EXPECT_EQ(timed_count(pair.a, LatencyKind::kWrite), (i + kOf - 1) / kOf);
    write_unseen(pair, 7 * kOneUs, 3 * kOneUs, 2 * kOneUs);
  }
  const LatencyHistogram* const histogram = pair.a.qp().latencies().find(LatencyKind::kWrite);
  EXPECT_EQ(histogram->count(), kTimed);
  EXPECT_EQ(histogram->sum(), kTimed * 12 * kOneUs);
  pair.a.many_doorbells = false;
  for (std::uint64_t i = 1; i <= 3; ++i) {
    write_unseen(pair, kOneUs, 0, 0);
    EXPECT_EQ(timed_count(pair.a, LatencyKind::kWrite), kTimed + i);
  }
}

// A work request posted before the program saw the stamp request has no stamp: it is timed from
// when the card sees it.
TEST(Latency, DoesNotWaitForAMissingStamp) {
  QpPair pair;
  stamping(pair);
  pair.a.sends.clock = nullptr;
  post_timed(pair, 1);
  pair.now += kOneUs;
  pair.a.ring(pair.now);
  pair.a.sends.clock = program_clock;
  program_time = pair.now;
  post_timed(pair, 2);
  pair.now += kOneUs;
  pair.run();
  EXPECT_EQ(timed_count(pair.a, LatencyKind::kWrite), 1U);
  expect_one(pair, LatencyKind::kQueued, kOneUs);
}

TEST(Latency, FlushedWorkIsNotTimed) {
  QpPair pair;
  post_timed(pair, 1);
  pair.a.ring(pair.now);
  pair.a.to_error(pair.now);
  EXPECT_EQ(timed_count(pair.a, LatencyKind::kWrite), 0U);
  pair.a.modify({.state = QpState::kReset}, kQpMaskState, pair.now);
  pair.b.modify({.state = QpState::kReset}, kQpMaskState, pair.now);
  pair.connect(pair.a);
  pair.connect(pair.b);
  while (pair.a.poll_send()) {
  }
  write_unseen(stamping(pair), kOneUs, 0, 5 * kOneUs);
  expect_one(pair, LatencyKind::kWrite, 6 * kOneUs);
}

// The send queue of an unreliable transport requests a stamp again after SQE.
TEST(Latency, RequestsAStampAgainAfterAFlush) {
  PairConfig config;
  config.a.type = config.b.type = QpType::kUc;
  QpPair pair(config);
  const abi::RingControl& ring = stamping(pair).a.sends.control;
  abi::SendWr wr = rdma_wr(1, static_cast<WrOpcode>(31), pair.b, 0);
  pair.a.post_send(wr, {});
  post_timed(pair, 2);
  EXPECT_EQ(ring.producer.stamp_wanted, ring.producer.stamp_given);
  pair.run();
  ASSERT_EQ(pair.a.qp().state(), QpState::kSqe);
  pair.a.modify({.state = QpState::kRts}, kQpMaskState, pair.now);
  while (pair.a.poll_send()) {
  }
  EXPECT_NE(ring.producer.stamp_wanted, ring.producer.stamp_given);
  program_time = pair.now;
  post_timed(pair, 3);
  pair.now += kOneUs;
  pair.a.ring(pair.now);
  pair.run();
  expect_one(pair, LatencyKind::kWrite, kOneUs);
}

TEST(Latency, SwitchedOffTakesNoMemory) {
  PairConfig config;
  config.a.measures_latency = false;
  QpPair pair(config);
  EXPECT_EQ(stamping(pair).a.sends.control.producer.stamp_wanted, 0U);
  write_taking(pair, kOneUs, kOneUs);
  EXPECT_EQ(pair.a.sends.control.producer.stamp_wanted, 0U) << "no stamp is requested";
  for (std::size_t of = 0; of < kLatencyCount; ++of) {
    EXPECT_EQ(pair.a.qp().latencies().find(static_cast<LatencyKind>(of)), nullptr);
  }
}

TEST(Latency, SumsCountBoth) {
  Latencies one, other;
  one.add(LatencyKind::kRead, 3 * kOneUs);
  other.add(LatencyKind::kRead, 5 * kOneUs);
  other.add(LatencyKind::kSend, kOneUs);
  one += other;
  EXPECT_EQ(one.find(LatencyKind::kRead)->count(), 2U);
  EXPECT_EQ(one.find(LatencyKind::kRead)->sum(), 8 * kOneUs);
  EXPECT_EQ(one.find(LatencyKind::kRead)->max(), 5 * kOneUs);
  EXPECT_EQ(one.find(LatencyKind::kSend)->count(), 1U);
  EXPECT_EQ(one.find(LatencyKind::kAtomic), nullptr);
}

}  // namespace
}  // namespace uroce::test
