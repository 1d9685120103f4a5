// Tail loss probes: a loss at the end of a burst is detected after about two round trips, not only
// when the queue pair's acknowledgement timer expires.

#include <gtest/gtest.h>

#include "dataplane/qp/recovery/rnr_timer.h"
#include "dataplane/qp/recovery/round_trip.h"
#include "tests/unit/qp/qp_pair.h"
#include "tests/unit/qp/recovery/round_trip_sample.h"

namespace uroce::test {
namespace {

using abi::WcStatus;
using abi::WrOpcode;

void post_writes(QpPair& pair, std::size_t length) {
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, length)});
}

// Of so many packets the first is lost. It is sent again alone, and its acknowledgement shows that
// the peer buffers nothing, so the others have to be sent again as well.
void lose_first_of(QpPair& pair, std::size_t packets) {
  const auto frames = pair.transmit(pair.a);
  ASSERT_EQ(frames.size(), packets);
  EXPECT_EQ(pair.deliver(pair.b, *frames[1]), Drop::kOutOfSequence);
  for (const auto& nak : pair.transmit(pair.b)) {
    EXPECT_EQ(pair.deliver(pair.a, *nak), Drop::kNone);
  }
  const auto alone = pair.transmit(pair.a, 1);
  ASSERT_EQ(alone.size(), 1U);
  EXPECT_EQ(pair.deliver(pair.b, *alone[0]), Drop::kNone);
  for (const auto& acknowledgement : pair.transmit(pair.b)) {
    EXPECT_EQ(pair.deliver(pair.a, *acknowledgement), Drop::kNone);
  }
  ASSERT_EQ(pair.a.qp().counters().resends_gone_back, 1U);
}

TEST(RoundTripTimer, MeasuresOnePacketAtATime) {
  RoundTripTimer timer;
  timer.start(5, 100);
  timer.start(6, 200);
  EXPECT_EQ(timer.answered(5, 300), 0);
  EXPECT_EQ(timer.answered(7, 400), 300);
  EXPECT_EQ(timer.answered(8, 500), 0);
}

TEST(RoundTripTimer, AnswersToRetransmissionsAreNoSamples) {
  RoundTripTimer timer;
  timer.start(5, 100);
  timer.resent(5);
  EXPECT_EQ(timer.answered(6, 300), 200);
  timer.start(5, 100);
  timer.resent(6);
  EXPECT_EQ(timer.answered(6, 300), 0);
}

TEST(RoundTripTimer, AnAnswerDelayedByAMissingPacketIsNoSample) {
  RoundTripTimer timer;
  timer.start(5, 100);
  timer.cancel();
  EXPECT_EQ(timer.answered(6, 300), 0);
}

TEST(RoundTrip, IsSmoothedWithItsDeviation) {
  RoundTrip trip;
  EXPECT_FALSE(trip.known());
  trip.sample(800'000);
  EXPECT_EQ(trip.probe_timeout(), 2 * 800'000U + 4 * 400'000U);
  trip.sample(1'600'000);
  EXPECT_EQ(trip.smoothed(), 900'000U);
  EXPECT_EQ(trip.probe_timeout(), 2 * 900'000U + 4 * 500'000U);
}

TEST(RoundTrip, TheProbeTimeoutHasAMinimum) {
  RoundTrip trip;
  trip.sample(1'000);
  EXPECT_EQ(trip.probe_timeout(), RoundTrip::kTimeoutMin);
}

TEST(Probe, IsSentLongBeforeTheTimerAndIsNoRetry) {
  QpPair pair({.timeout = 14, .retry_cnt = 0});
  sample_round_trip(pair);
  post_writes(pair, 8);
  ASSERT_EQ(pair.transmit(pair.a).size(), 1U);  // lost
  EXPECT_EQ(pair.a.qp().deadline(), pair.now + 4 * kRoundTripTime);
  ASSERT_TRUE(pair.next_deadline());
  pair.exchange();
  const auto cqe = pair.a.poll_send();
  ASSERT_TRUE(cqe.has_value());
  EXPECT_EQ(cqe->status, WcStatus::kSuccess);
  EXPECT_EQ(pair.a.qp().counters().tail_probes, 1U);
  EXPECT_EQ(pair.a.qp().counters().roce_adp_retrans, 1U);
  EXPECT_EQ(pair.a.qp().counters().local_ack_timeout_err, 0U);
}

// A retransmission after a NAK isn't due to a timeout, but one after that retransmission was lost
// is.
TEST(Probe, CountsARepeatedRetransmission) {
  QpPair pair({.timeout = 20});
  post_writes(pair, 3'000);
  auto frames = pair.transmit(pair.a);
  ASSERT_EQ(frames.size(), 3U);
  EXPECT_EQ(pair.deliver(pair.b, *frames[1]), Drop::kOutOfSequence);
  for (const auto& frame : pair.transmit(pair.b)) {
    EXPECT_EQ(pair.deliver(pair.a, *frame), Drop::kNone);
  }
  ASSERT_EQ(pair.transmit(pair.a).size(), 1U);  // lost once more
  EXPECT_EQ(pair.a.qp().counters().roce_adp_retrans, 0U);
  ASSERT_TRUE(pair.next_deadline());
  ASSERT_EQ(pair.transmit(pair.a).size(), 1U);
  EXPECT_EQ(pair.a.qp().counters().roce_adp_retrans, 1U);
  EXPECT_EQ(pair.a.qp().counters().tail_probes, 0U);
}

// Only the oldest unacknowledged packet; it requests an acknowledgement whatever it is.
TEST(Probe, IsOnePacketThatRequestsAnAcknowledgement) {
  QpPair pair({.timeout = 14});
  sample_round_trip(pair);
  post_writes(pair, 3'000);
  ASSERT_EQ(pair.transmit(pair.a).size(), 3U);
  ASSERT_TRUE(pair.next_deadline());
  auto probe = pair.transmit(pair.a);
  ASSERT_EQ(probe.size(), 1U);
  EXPECT_EQ(parse(probe[0]->frame), Drop::kNone);
  EXPECT_EQ(probe[0]->frame.packet.psn, 101U);
  EXPECT_TRUE(probe[0]->frame.packet.ack_request);
}

// If the peer acknowledges the probe and nothing more, all packets after it were lost.
TEST(Probe, IsFollowedByTheRestIfThatWasLostToo) {
  QpPair pair({.timeout = 14});
  sample_round_trip(pair);
  post_writes(pair, 5'000);
  ASSERT_EQ(pair.transmit(pair.a).size(), 5U);
  const Time sent = pair.now;
  pair.run();
  EXPECT_TRUE(pair.a.poll_send().has_value());
  EXPECT_EQ(pair.a.qp().counters().local_ack_timeout_err, 0U);
  EXPECT_EQ(pair.a.qp().counters().tail_probes, 1U);
  EXPECT_EQ(pair.a.qp().counters().resends_gone_back, 1U);
  EXPECT_LT(pair.now - sent, 10 * kRoundTripTime);
}

// A window is sent again, and its last packet, which requests the answer, is lost. Nothing else can
// be sent then, and there is no timer.
TEST(Probe, IsSentAlsoWhenWhatIsSentAgainFillsTheWindow) {
  constexpr std::size_t kLength = 64'000;
  QpPair pair(
      {.a = {.shares_network = true}, .b = {.qpn = 18, .shares_network = true}, .timeout = 0});
  sample_round_trip(pair);
  post_writes(pair, kLength);
  const std::uint32_t first = pair.a.qp().send_psn();
  bool first_lost = false;
  bool last_lost = false;
  pair.run([&](const Packet& packet, bool to_b) {
    const bool gone_back = pair.a.qp().counters().resends_gone_back != 0;
    bool* const loss = !to_b                                           ? nullptr
                       : packet.psn == first && !first_lost            ? &first_lost
                       : gone_back && packet.ack_request && !last_lost ? &last_lost
                                                                       : nullptr;
    return loss != nullptr && (*loss = true);
  });
  EXPECT_TRUE(last_lost);
  const auto cqe = pair.a.poll_send();
  ASSERT_TRUE(cqe.has_value());
  EXPECT_EQ(cqe->status, WcStatus::kSuccess);
  EXPECT_GE(pair.a.qp().counters().tail_probes, 1U);
}

// While something goes out again, nobody is silent yet.
TEST(Probe, WaitsUntilNothingCanBeSentAgain) {
  QpPair pair({.timeout = 14});
  sample_round_trip(pair);
  post_writes(pair, 10'000);
  const std::uint32_t first = pair.a.qp().send_psn();
  lose_first_of(pair, 10);
  ASSERT_EQ(pair.transmit(pair.a, 1).size(), 1U);  // of nine, and the port has no room for more
  const Time gone_back = pair.now;
  Duration wait = 0;
  for (int i = 0; i < 4; ++i) {
    const Time before = pair.now;
    ASSERT_TRUE(pair.next_deadline());
    EXPECT_GT(pair.now - before, wait) << "the worker is woken less and less often";
    wait = pair.now - before;
  }
  EXPECT_LT(pair.now - gone_back, timer_duration(14));
  EXPECT_EQ(pair.a.qp().counters().tail_probes, 0U);
  ASSERT_EQ(pair.transmit(pair.a).size(), 8U);  // lost
  EXPECT_LE(pair.a.qp().deadline(), pair.now + 4 * kRoundTripTime);
  ASSERT_TRUE(pair.next_deadline());
  EXPECT_EQ(pair.a.qp().counters().tail_probes, 1U);
  EXPECT_EQ(pair.a.qp().send_psn(), psn_add(first, 10));
}

// What is sent again meets a request that can't be sent any more, because its region is gone, and
// that fails only when it is the oldest. Nothing goes out again, so the probe does, without a
// timer.
TEST(Probe, IsSentWhenARefusedRequestStopsWhatIsSentAgain) {
  QpPair pair({.timeout = 0});
  sample_round_trip(pair);
  const std::uint32_t passing = pair.a.add_region();
  for (std::uint64_t id = 2; id <= 4; ++id) {
    abi::Sge sge = pair.a.sge(0, 8);
    sge.lkey = id == 4 ? passing : sge.lkey;
    pair.a.post_send(rdma_wr(id, WrOpcode::kRdmaWrite, pair.b, 0), std::array{sge});
  }
  lose_first_of(pair, 3);
  ASSERT_TRUE(pair.a.keys().remove(passing));
  ASSERT_EQ(pair.transmit(pair.a).size(), 1U) << "the second, which is lost; the third can't be";
  ASSERT_TRUE(pair.next_deadline());
  EXPECT_EQ(pair.a.qp().counters().tail_probes, 1U);
}

TEST(Probe, BacksOffAndTimeoutsStillEndIt) {
  QpPair pair({.timeout = 10, .retry_cnt = 1});
  sample_round_trip(pair);
  post_writes(pair, 8);
  int probes = 0;
  const Time sent = pair.now;
  pair.run([&](const Packet&, bool) { return ++probes != 0; });
  const auto cqe = pair.a.poll_send();
  ASSERT_TRUE(cqe.has_value());
  EXPECT_EQ(cqe->status, WcStatus::kRetryExcErr);
  EXPECT_EQ(pair.now - sent, 3 * (Duration{4'096} << 10U));  // the first, and one twice as long
  EXPECT_LT(probes, 12);
}

// Karn: a packet that was sent twice is no sample.
TEST(Probe, APacketSentTwiceIsNoSample) {
  QpPair pair({.timeout = 14});
  sample_round_trip(pair);
  post_writes(pair, 8);
  ASSERT_EQ(pair.transmit(pair.a).size(), 1U);
  ASSERT_TRUE(pair.next_deadline());
  for (const auto& frame : pair.transmit(pair.a)) {
    EXPECT_EQ(pair.deliver(pair.b, *frame), Drop::kNone);
  }
  for (const auto& frame : pair.transmit(pair.b)) {
    EXPECT_EQ(pair.deliver(pair.a, *frame), Drop::kNone);
  }
  post_writes(pair, 8);
  ASSERT_EQ(pair.transmit(pair.a).size(), 1U);
  EXPECT_EQ(pair.a.qp().deadline(), pair.now + 4 * kRoundTripTime);
}

// A peer that waits for a page shows by an RNR NAK that it is alive, but only because it was
// probed.
TEST(Probe, DoesNotUseUpRnrRetries) {
  QpPair pair({.timeout = 14, .rnr_retry = 0});
  sample_round_trip(pair);
  pair.a.post_send(send_wr(1, WrOpcode::kSend), std::array{pair.a.sge(0, 8)});
  ASSERT_EQ(pair.transmit(pair.a).size(), 1U);
  ASSERT_TRUE(pair.next_deadline());
  pair.exchange();  // there is no receive
  EXPECT_EQ(pair.a.qp().counters().rnr_nak_retry_err, 1U);
  EXPECT_FALSE(pair.a.poll_send().has_value());
  pair.b.post_recv(2, std::array{pair.b.sge(0, 8)});
  pair.run();
  const auto cqe = pair.a.poll_send();
  ASSERT_TRUE(cqe.has_value());
  EXPECT_EQ(cqe->status, WcStatus::kSuccess);
}

// A SEND without a receive, whose RNR NAK arrives after the probe. The time of the NAK then runs,
// and nothing is sent.
void probe_for_a_receive(QpPair& pair) {
  sample_round_trip(pair);
  pair.a.post_send(send_wr(1, WrOpcode::kSend), std::array{pair.a.sge(0, 8)});
  ASSERT_EQ(pair.transmit(pair.a).size(), 1U);  // lost
  ASSERT_TRUE(pair.next_deadline());
  pair.exchange();
  ASSERT_EQ(pair.a.qp().counters().rnr_nak_retry_err, 1U);
  EXPECT_TRUE(pair.transmit(pair.a).empty());
}

TEST(Probe, ThatGetsAnRnrNakWaitsForItsTimer) {
  for (const int timeout : {0, 20}) {
    QpPair pair({.timeout = static_cast<std::uint8_t>(timeout), .min_rnr_timer = 12});
    probe_for_a_receive(pair);
    EXPECT_EQ(pair.a.qp().deadline(), pair.now + kRnrTimer[12] * kRnrTimerUnit) << timeout;
    pair.b.post_recv(2, std::array{pair.b.sge(0, 8)});
    ASSERT_TRUE(pair.next_deadline());
    pair.exchange();
    EXPECT_TRUE(pair.a.poll_send().has_value()) << timeout;
    EXPECT_EQ(pair.a.qp().counters().local_ack_timeout_err, 0U);
  }
}

// Also if every RNR NAK follows a probe, and the acknowledgement timer is off.
TEST(Probe, SparesOneRnrRetryOnly) {
  QpPair pair({.timeout = 0, .rnr_retry = 2});
  probe_for_a_receive(pair);
  for (int wait = 0; wait < 3; ++wait) {
    ASSERT_FALSE(pair.a.poll_send().has_value()) << wait;
    ASSERT_TRUE(pair.next_deadline());
    ASSERT_EQ(pair.transmit(pair.a).size(), 1U);  // lost again
    ASSERT_TRUE(pair.next_deadline());
    pair.exchange();
  }
  const auto cqe = pair.a.poll_send();
  ASSERT_TRUE(cqe.has_value());
  EXPECT_EQ(cqe->status, WcStatus::kRnrRetryExcErr);
  EXPECT_EQ(pair.a.qp().counters().rnr_nak_retry_err, 4U);
}

// The peer had the packet, and was about to answer.
TEST(Probe, ThatGetsAnRnrNakSendsNothingAgainIfTheAnswerComes) {
  QpPair pair({.timeout = 14});
  sample_round_trip(pair);
  pair.a.post_send(send_wr(1, WrOpcode::kSend), std::array{pair.a.sge(0, 8)});
  auto request = pair.transmit(pair.a);
  ASSERT_EQ(request.size(), 1U);
  ASSERT_TRUE(pair.next_deadline());
  pair.exchange();
  pair.b.post_recv(2, std::array{pair.b.sge(0, 8)});
  EXPECT_EQ(pair.deliver(pair.b, *request[0]), Drop::kNone);
  pair.exchange();
  EXPECT_TRUE(pair.a.poll_send().has_value());
  EXPECT_EQ(pair.a.qp().counters().requests_resent, 1U) << "the probe";
}

}  // namespace
}  // namespace uroce::test
