// A peer that isn't ready to receive: what is sent to it after an RNR NAK, and how that grows.

#include "dataplane/qp/recovery/receiver_window.h"

#include <gtest/gtest.h>

#include "tests/unit/qp/qp_pair.h"

namespace uroce::test {
namespace {

using abi::WcStatus;
using abi::WrOpcode;
using Psns = std::vector<std::uint32_t>;

TEST(ReceiverWindow, GrowsAsSlowStartUntilItLimitsNothing) {
  constexpr std::uint32_t kLast = 0xFFFF'FFFE;  // indices wrap
  ReceiverWindow window;
  EXPECT_FALSE(window.limited());
  window.not_ready(kLast);
  ASSERT_TRUE(window.limited());
  EXPECT_FALSE(window.covers(kLast));
  window.taken(kLast + 1);
  EXPECT_FALSE(window.covers(kLast + 1));
  std::uint32_t first = kLast + 2;
  std::uint32_t rounds = 0;
  for (std::uint32_t width = 2; width < ReceiverWindow::kMax; width *= 2) {
    window.taken(first);
    ASSERT_TRUE(window.limited());
    EXPECT_TRUE(window.covers(first + width - 1));
    EXPECT_FALSE(window.covers(first + width));
    first += width;
    ++rounds;
  }
  EXPECT_EQ(rounds, 8U);
  window.taken(first);
  EXPECT_FALSE(window.limited());
}

// What the peer took between two RNR NAKs is what it takes at a time.
TEST(ReceiverWindow, OpensToWhatThePeerTookBefore) {
  ReceiverWindow window;
  window.not_ready(0);
  for (const std::uint32_t index : {1U, 2U, 4U, 6U}) {
    window.taken(index);
  }
  window.not_ready(6);
  EXPECT_TRUE(window.covers(11));
  EXPECT_FALSE(window.covers(12));
  window.not_ready(6);  // again, at the same message
  EXPECT_FALSE(window.covers(6));
  window.taken(7);
  EXPECT_TRUE(window.covers(12));
  EXPECT_FALSE(window.covers(13));
}

// It kept up with several windows and then fell behind: fewer messages at once may spare it that.
TEST(ReceiverWindow, IsHalvedIfThePeerFellBehind) {
  ReceiverWindow window;
  std::uint32_t index = 0;
  const auto take = [&](std::uint32_t count) { window.taken(index += count); };
  window.not_ready(index);
  take(8);
  window.not_ready(index);  // the threshold is 8
  for (int i = 0; i < 5; ++i) {
    take(8);
  }
  EXPECT_TRUE(window.covers(index + 12));  // it grew by an eighth of 40
  EXPECT_FALSE(window.covers(index + 13));
  window.not_ready(index);
  EXPECT_TRUE(window.covers(index + 5));
  EXPECT_FALSE(window.covers(index + 6));
  take(40);
  window.not_ready(index);  // as many again, and at half the width: it posts 40 at a time
  EXPECT_TRUE(window.covers(index + 39));
  EXPECT_FALSE(window.covers(index + 40));
}

// A peer that kept up for long, and isn't ready once, isn't held back.
TEST(ReceiverWindow, ALongRunIsRemembered) {
  ReceiverWindow window;
  window.not_ready(0);
  window.taken(ReceiverWindow::kMax);
  EXPECT_FALSE(window.limited());
  window.not_ready(100'000);
  EXPECT_TRUE(window.covers(100'000 + ReceiverWindow::kMax - 1));
  window.not_ready(100'000);
  EXPECT_FALSE(window.covers(100'000));
  window.taken(100'001);
  EXPECT_FALSE(window.limited());
  window.not_ready(200'000);  // what was taken meanwhile wasn't counted
  EXPECT_TRUE(window.covers(200'000 + ReceiverWindow::kMax - 1));
}

// Two long runs, which aren't counted to the end, aren't the same number.
TEST(ReceiverWindow, LongRunsHalveItEachTime) {
  ReceiverWindow window;
  window.not_ready(0);
  window.taken(8);
  std::uint32_t index = 8;
  window.not_ready(index);
  for (const std::uint32_t width : {68U, 98U}) {  // (8 + 128) / 2, (68 + 128) / 2
    // A message at a time, so that the window grows slowly.
    for (std::uint32_t i = 0; i < 2 * ReceiverWindow::kMax; ++i) {
      window.taken(++index);
    }
    window.not_ready(index);
    EXPECT_TRUE(window.covers(index + width - 1));
    EXPECT_FALSE(window.covers(index + width));
  }
}

// a sends to b, whose answers are forged.
class NotReady : public testing::Test {
 protected:
  void post(std::uint64_t count, WrOpcode opcode, std::size_t length = 8) {
    for (std::uint64_t i = 0; i < count; ++i) {
      pair.a.post_send(rdma_wr(next_id++, opcode, pair.b, 0), std::array{pair.a.sge(0, length)});
    }
  }
  void acknowledge(std::uint32_t psn, std::uint8_t syndrome = kSyndromeAckUnlimited) {
    const Headers headers{
        .opcode = Opcode::kRcAcknowledge, .psn = psn, .aeth = {.syndrome = syndrome, .msn = 0}};
    EXPECT_EQ(pair.deliver(pair.a, *pair.forge(pair.a, headers, {})), Drop::kNone);
  }
  // An RNR NAK, and the end of the time that it asks for.
  void not_ready(std::uint32_t psn) {
    acknowledge(psn, kSyndromeRnr | 12);
    EXPECT_EQ(sends(), Psns{});
    ASSERT_TRUE(pair.next_deadline());
  }
  // b isn't ready for the first of so many messages (PSNs from 100 on), and a asks.
  void hold(std::uint64_t count) {
    post(count, WrOpcode::kSend);
    EXPECT_EQ(sends().size(), count);
    not_ready(100);
    EXPECT_EQ(sends(), (Psns{100}));
  }
  // Before it has measured one, a doesn't probe. PSN 100.
  void measure_round_trip() {
    post(1, WrOpcode::kSend);
    EXPECT_EQ(sends(), (Psns{100}));
    pair.now += kNanosecondsPerMicrosecond;
    acknowledge(100);
  }
  // The PSNs that a sends now, and whether the last of them requests an answer.
  Psns sends() {
    Psns psns;
    for (const auto& frame : pair.transmit(pair.a)) {
      EXPECT_EQ(parse(frame->frame), Drop::kNone);
      psns.push_back(frame->frame.packet.psn);
      asks = frame->frame.packet.ack_request;
    }
    return psns;
  }

  QpPair pair{{.retry_cnt = 2, .rnr_retry = 7}};
  std::uint64_t next_id = 0;
  bool asks = false;
};

TEST_F(NotReady, TheMessageGoesAloneThenTwiceAsManyEachTime) {
  post(16, WrOpcode::kSend);
  EXPECT_EQ(sends().size(), 16U);
  for (int i = 0; i < 2; ++i) {
    not_ready(100);
    EXPECT_EQ(sends(), (Psns{100}));
  }
  acknowledge(100);
  EXPECT_EQ(sends(), (Psns{101}));
  acknowledge(101);
  EXPECT_EQ(sends(), (Psns{102, 103}));
  acknowledge(103);
  EXPECT_EQ(sends(), (Psns{104, 105, 106, 107}));
  not_ready(105);  // five were taken
  EXPECT_EQ(sends(), (Psns{105, 106, 107, 108, 109}));
  not_ready(105);
  EXPECT_EQ(sends(), (Psns{105}));
  acknowledge(105);
  EXPECT_EQ(sends(), (Psns{106, 107, 108, 109, 110}));
}

// The first packet asks; its acknowledgement says that the message has its receive.
TEST_F(NotReady, OfALongMessageOnlyTheFirstPacketGoes) {
  post(5, WrOpcode::kSend, 3'000);  // PSNs 100 to 114
  EXPECT_EQ(sends().size(), 15U);
  not_ready(100);
  EXPECT_EQ(sends(), (Psns{100}));
  EXPECT_TRUE(asks);
  acknowledge(100);
  EXPECT_EQ(sends(), (Psns{101, 102}));
  acknowledge(102);
  EXPECT_EQ(sends(), (Psns{103}));
  EXPECT_TRUE(asks);
  acknowledge(103);
  EXPECT_EQ(sends(), (Psns{104, 105, 106, 107, 108, 109, 110, 111}));
}

// Whatever follows the message would be discarded with it; what is posted later, too.
TEST_F(NotReady, NothingElseFollowsTheMessage) {
  post(1, WrOpcode::kSend);
  post(1, WrOpcode::kRdmaWrite);
  post(1, WrOpcode::kRdmaRead);
  EXPECT_EQ(sends(), (Psns{100, 101, 102}));
  not_ready(100);
  EXPECT_EQ(sends(), (Psns{100}));
  post(1, WrOpcode::kRdmaWrite);
  EXPECT_EQ(sends(), Psns{});
  acknowledge(100);
  EXPECT_EQ(sends(), (Psns{101}));
  acknowledge(101);
  EXPECT_EQ(sends(), (Psns{102, 103}));
}

TEST_F(NotReady, WhatIsPostedLaterWaitsToo) {
  hold(1);
  post(1, WrOpcode::kSend);
  EXPECT_EQ(sends(), Psns{});
  acknowledge(100);
  EXPECT_EQ(sends(), (Psns{101}));
}

// A WRITE with immediate takes its receive with its last packet.
TEST_F(NotReady, AWriteWithImmediateAsksWithItsLastPacket) {
  post(2, WrOpcode::kRdmaWriteWithImm, 3'000);  // PSNs 100 to 105
  EXPECT_EQ(sends().size(), 6U);
  not_ready(102);
  EXPECT_EQ(sends(), (Psns{102}));
  EXPECT_TRUE(asks);
  acknowledge(102);
  EXPECT_EQ(sends(), (Psns{103, 104, 105}));
  not_ready(105);
  EXPECT_EQ(sends(), (Psns{105}));
}

// Not before the wait is over: if something was taken meanwhile, the peer is ready.
TEST_F(NotReady, ProgressDuringTheWaitHoldsNothingBack) {
  post(4, WrOpcode::kSend);
  EXPECT_EQ(sends().size(), 4U);
  acknowledge(100, kSyndromeRnr | 12);
  acknowledge(100);
  EXPECT_EQ(sends(), (Psns{101, 102, 103}));
}

// The peer answers the probe into a silence by an RNR NAK.
TEST_F(NotReady, AfterAProbeToo) {
  measure_round_trip();
  post(3, WrOpcode::kSend);
  EXPECT_EQ(sends().size(), 3U);
  ASSERT_TRUE(pair.next_deadline());
  EXPECT_EQ(sends(), (Psns{101}));
  EXPECT_EQ(pair.a.qp().counters().tail_probes, 1U);
  not_ready(101);
  EXPECT_EQ(sends(), (Psns{101}));
}

// A silent peer is probed also while only the question is outstanding; if it took that, nothing
// behind it was lost.
TEST_F(NotReady, AnAnsweredProbeOfTheQuestionIsNoLoss) {
  measure_round_trip();
  post(4, WrOpcode::kSend);
  EXPECT_EQ(sends().size(), 4U);
  not_ready(101);
  EXPECT_EQ(sends(), (Psns{101}));
  ASSERT_TRUE(pair.next_deadline());
  EXPECT_EQ(sends(), (Psns{101}));
  acknowledge(101);
  EXPECT_EQ(sends(), (Psns{102}));
  ASSERT_TRUE(pair.next_deadline());
  EXPECT_EQ(sends(), (Psns{102}));
  EXPECT_EQ(pair.a.qp().counters().resends_gone_back, 0U);
}

// Without a timer nothing would ask again.
TEST_F(NotReady, WithoutATimerNothingIsHeldBack) {
  QpPair other{{.timeout = 0, .rnr_retry = 7}};
  for (int i = 0; i < 4; ++i) {
    other.a.post_send(send_wr(0, WrOpcode::kSend), std::array{other.a.sge(0, 8)});
  }
  EXPECT_EQ(other.transmit(other.a).size(), 4U);
  const Headers rnr_nak{.opcode = Opcode::kRcAcknowledge,
                        .psn = 100,
                        .aeth = {.syndrome = kSyndromeRnr | 12, .msn = 0}};
  EXPECT_EQ(other.deliver(other.a, *other.forge(other.a, rnr_nak, {})), Drop::kNone);
  ASSERT_TRUE(other.next_deadline());
  EXPECT_EQ(other.transmit(other.a).size(), 4U);
}

// SQD: what was begun before is sent to the end, held back or not; then the event comes.
TEST_F(NotReady, WhatIsHeldBackIsDrained) {
  post(3, WrOpcode::kSend);
  EXPECT_EQ(sends().size(), 3U);
  not_ready(100);
  pair.a.modify({.state = QpState::kSqd, .sqd_async_notify = true}, kQpMaskState, pair.now);
  for (const std::uint32_t psn : {100U, 101U, 102U}) {
    EXPECT_EQ(sends(), (Psns{psn}));
    EXPECT_FALSE(pair.a.announced(AsyncEvent::kSqDrained));
    acknowledge(psn);
  }
  EXPECT_TRUE(pair.a.announced(AsyncEvent::kSqDrained));
}

// What needs no packet waits for what is before it, and holds nothing up.
TEST_F(NotReady, ALocalOperationInBetween) {
  post(1, WrOpcode::kSend);
  abi::SendWr invalidate = send_wr(next_id++, WrOpcode::kLocalInv);
  invalidate.immediate = 0xFFFF'FF00;  // no such key: it fails in its turn
  pair.a.post_send(invalidate, {});
  EXPECT_EQ(sends(), (Psns{100}));
  not_ready(100);
  EXPECT_EQ(sends(), (Psns{100}));
  acknowledge(100);
  EXPECT_EQ(sends(), Psns{});
  const auto sent = pair.a.poll_send();
  const auto invalidated = pair.a.poll_send();
  ASSERT_TRUE(sent.has_value() && invalidated.has_value());
  EXPECT_EQ(sent->status, WcStatus::kSuccess);
  EXPECT_NE(invalidated->status, WcStatus::kSuccess);
}

TEST_F(NotReady, NothingIsHeldBackOnceTheTimerIsOff) {
  hold(3);
  QpAttributes attributes = pair.attributes(true);
  attributes.timeout = 0;
  attributes.state = QpState::kRts;
  pair.a.modify(attributes, kQpMaskTimeout, pair.now);
  EXPECT_EQ(sends(), (Psns{101, 102}));
}

// What is posted goes out before a queue pair is destroyed, held back or not.
TEST_F(NotReady, EverythingGoesBeforeTheEnd) {
  hold(3);
  pair.a.qp().hold_nothing_back();
  EXPECT_EQ(sends(), (Psns{101, 102}));
}

// A connection that is made again begins without what the old one knew.
TEST_F(NotReady, IsForgottenByAReset) {
  hold(2);
  pair.a.modify({.state = QpState::kReset}, kQpMaskState, pair.now);
  pair.connect(pair.a);
  post(4, WrOpcode::kSend);
  EXPECT_EQ(sends().size(), 4U);
}

// Within a message, and for those that take no receive, an RNR NAK means that the peer waits for a
// page: it doesn't say that it is slow.
TEST_F(NotReady, APageFaultOfThePeerHoldsNothingBack) {
  post(1, WrOpcode::kSend, 2'000);
  post(2, WrOpcode::kRdmaWrite);
  EXPECT_EQ(sends().size(), 4U);
  not_ready(101);
  EXPECT_EQ(sends(), (Psns{101, 102, 103}));
  not_ready(102);
  EXPECT_EQ(sends(), (Psns{102, 103}));
}

// b posts a receive at a time, and a has many messages: they aren't sent again and again.
TEST_F(NotReady, ASlowReceiverCostsItsSenderLittle) {
  constexpr std::uint64_t kMessages = 16;
  post(kMessages, WrOpcode::kSend);
  for (std::uint64_t i = 0; i < kMessages; ++i) {
    pair.b.post_recv(i, std::array{pair.b.sge(0, 8)});
    pair.run({}, 1);
  }
  pair.run();
  for (std::uint64_t i = 0; i < kMessages; ++i) {
    const auto cqe = pair.a.poll_send();
    ASSERT_TRUE(cqe.has_value()) << i;
    EXPECT_EQ(cqe->status, WcStatus::kSuccess);
  }
  EXPECT_LE(pair.a.qp().counters().requests_resent, 3 * kMessages);
}

}  // namespace
}  // namespace uroce::test
