// A peer that is slow, or has no processor for a while, but loses nothing: it executes or answers
// all that it is sent, so what is sent again must not become more and more.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "tests/unit/qp/qp_pair.h"
#include "tests/unit/qp/recovery/round_trip_sample.h"

namespace uroce::test {
namespace {

using abi::WcStatus;
using abi::WrOpcode;

constexpr std::size_t kMtu = 1'024;

void post(QpPair& pair, std::uint64_t wr_id, WrOpcode opcode, std::size_t bytes) {
  pair.a.post_send(rdma_wr(wr_id, opcode, pair.b, 0), std::array{pair.a.sge(0, bytes)});
}

QpPair::Frames answers(QpPair& pair, const QpPair::Frames& requests) {
  for (const auto& request : requests) {
    EXPECT_EQ(pair.deliver(pair.b, *request), Drop::kNone);
  }
  return pair.transmit(pair.b);
}

void take(QpPair& pair, const QpPair::Frames& responses) {
  for (const auto& response : responses) {
    EXPECT_EQ(pair.deliver(pair.a, *response), Drop::kNone);
  }
}

// Two READs, the first of which was requested twice: the second waits until the peer has answered
// that, in order, and isn't probed meanwhile.
TEST(SlowPeer, IsNotProbedWhileItAnswersWhatWasRequestedTwice) {
  QpPair pair({.timeout = 20});
  sample_round_trip(pair);
  post(pair, 1, WrOpcode::kRdmaRead, 8 * kMtu);
  const auto first = answers(pair, pair.transmit(pair.a));
  ASSERT_EQ(first.size(), 8U);
  ASSERT_TRUE(pair.next_deadline());
  const auto again = answers(pair, pair.transmit(pair.a));
  ASSERT_EQ(again.size(), 8U);
  take(pair, first);
  ASSERT_TRUE(pair.a.poll_send().has_value());

  post(pair, 2, WrOpcode::kRdmaRead, kMtu);
  const auto second = pair.transmit(pair.a);
  ASSERT_EQ(second.size(), 1U);
  const Duration silence = pair.a.qp().deadline() - pair.now;
  for (const auto& stale : again) {
    pair.now += silence - 1;
    EXPECT_EQ(pair.deliver(pair.a, *stale), Drop::kStaleResponse);
    EXPECT_TRUE(pair.transmit(pair.a).empty());
  }
  EXPECT_EQ(pair.a.qp().deadline(), pair.now + silence) << "then it is silent";
  EXPECT_EQ(pair.a.qp().counters().tail_probes, 1U);
  take(pair, answers(pair, second));
  EXPECT_TRUE(pair.a.poll_send().has_value());
}

// The timer sends everything again, but the probes' waits don't begin anew with it.
TEST(SlowPeer, IsProbedMoreAndMoreSeldomAlsoAfterATimeout) {
  QpPair pair({.timeout = 14});
  sample_round_trip(pair);
  post(pair, 1, WrOpcode::kRdmaRead, kMtu);
  const RoceCounters& counters = pair.a.qp().counters();
  const auto probes_until_timeout = [&](std::uint64_t timeouts) {
    const std::uint64_t before = counters.tail_probes;
    while (counters.local_ack_timeout_err < timeouts) {
      EXPECT_EQ(pair.transmit(pair.a).size(), 1U);
      EXPECT_TRUE(pair.next_deadline());
    }
    return counters.tail_probes - before;
  };
  EXPECT_EQ(probes_until_timeout(1), 6U);
  EXPECT_EQ(probes_until_timeout(2), 1U);
}

// Without a round trip there are no probes: only the timer runs.
TEST(SlowPeer, GetsOnePacketAfterASecondTimeoutAndMoreOnceItAnswers) {
  constexpr std::uint32_t kPackets = 12;
  QpPair pair;
  fill_pattern(pair.a.memory, 4);
  post(pair, 1, WrOpcode::kRdmaWrite, kPackets * kMtu);
  ASSERT_EQ(pair.transmit(pair.a).size(), kPackets);
  ASSERT_TRUE(pair.next_deadline());
  EXPECT_EQ(pair.transmit(pair.a).size(), kPackets) << "they may have been lost";
  QpPair::Frames frames;
  for (int timeout = 0; timeout < 3; ++timeout) {
    ASSERT_TRUE(pair.next_deadline());
    frames = pair.transmit(pair.a);
    ASSERT_EQ(frames.size(), 1U);
    EXPECT_EQ(parse(frames[0]->frame), Drop::kNone);
    EXPECT_TRUE(frames[0]->frame.packet.ack_request);
  }
  take(pair, answers(pair, frames));
  frames = pair.transmit(pair.a);
  EXPECT_EQ(frames.size(), 2U);
  take(pair, answers(pair, frames));
  EXPECT_EQ(pair.transmit(pair.a).size(), 4U);
  pair.run();
  EXPECT_EQ(pair.a.poll_send().value().status, WcStatus::kSuccess);
  EXPECT_TRUE(std::equal(pair.a.memory.begin(), pair.a.memory.begin() + kPackets * kMtu,
                         pair.b.memory.begin()));
}

// For comparison (docs/recovery.md).
TEST(SlowPeer, GetsEverythingAgainInGoBackN) {
  QpPair pair;
  pair.a.recovery = Recovery::kGoBackN;
  post(pair, 1, WrOpcode::kRdmaWrite, 4 * kMtu);
  ASSERT_EQ(pair.transmit(pair.a).size(), 4U);
  for (int timeout = 0; timeout < 3; ++timeout) {
    ASSERT_TRUE(pair.next_deadline());
    EXPECT_EQ(pair.transmit(pair.a).size(), 4U);
  }
}

}  // namespace
}  // namespace uroce::test
