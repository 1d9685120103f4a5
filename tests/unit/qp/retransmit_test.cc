// Losses: what is retransmitted, when, and when the requester gives up.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "dataplane/wire/layout.h"
#include "tests/unit/qp/qp_pair.h"

namespace uroce::test {
namespace {

using abi::WcStatus;
using abi::WrOpcode;

// From the BTH on, without the ICRC (it covers the IP identification, which is new each time).
std::vector<std::byte> transport_bytes(const HeapFrame& frame) {
  const std::byte* end = frame.frame.data + frame.frame.length - kIcrcLength;
  return {frame.frame.packet.bth, end};
}

QpPair::Frames parsed(QpPair::Frames frames) {
  for (const auto& frame : frames) {
    EXPECT_EQ(parse(frame->frame), Drop::kNone);
  }
  return frames;
}

void post_one_of_each(QpPair& pair) {
  fill_pattern(pair.a.memory, 9);
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 2'500)});
  pair.a.post_send(rdma_wr(2, WrOpcode::kRdmaRead, pair.b, 0),
                   std::array{pair.a.sge(500'000, 2'500)});
  abi::SendWr add = rdma_wr(3, WrOpcode::kAtomicFetchAndAdd, pair.b, 4'096);
  add.atomic.compare_add = 1;
  pair.a.post_send(add, std::array{pair.a.sge(600'000, 8)});
  abi::SendWr send = send_wr(4, WrOpcode::kSendWithImm, abi::kSignaled | abi::kSolicited);
  send.immediate = 0xABCD;
  pair.a.post_send(send, std::array{pair.a.sge(10'000, 700), pair.a.sge(20'000, 900)});
  pair.b.post_recv(5, std::array{pair.b.sge(10'000, 2'000)});
}

// 9.9.2.1.2: a retransmission after a timeout is identical byte by byte, with the same PSNs.
TEST(Retransmit, IsByteExact) {
  QpPair pair;
  post_one_of_each(pair);
  const auto before = parsed(pair.transmit(pair.a));
  ASSERT_EQ(before.size(), 3U + 1 + 1 + 2);
  ASSERT_TRUE(pair.next_deadline());
  const auto after = parsed(pair.transmit(pair.a));
  ASSERT_EQ(after.size(), before.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(transport_bytes(*after[i]), transport_bytes(*before[i])) << i;
  }
  EXPECT_EQ(pair.a.qp().counters().requests_resent, before.size());
  EXPECT_EQ(pair.a.qp().counters().local_ack_timeout_err, 1U);
}

TEST(Retransmit, RecoversFromTheLossOfAnyFrame) {
  for (int lost = 0; lost < 40; ++lost) {
    SCOPED_TRACE(lost);
    QpPair pair;
    post_one_of_each(pair);
    auto& counter = *reinterpret_cast<std::uint64_t*>(pair.b.memory.data() + 4'096);
    counter = 41;
    int frames = 0;
    pair.run([&](const Packet&, bool) { return frames++ == lost; });
    for (std::uint64_t id = 1; id <= 4; ++id) {
      const auto cqe = pair.a.poll_send();
      ASSERT_TRUE(cqe.has_value());
      EXPECT_EQ(cqe->wr_id, id);
      EXPECT_EQ(cqe->status, WcStatus::kSuccess);
    }
    EXPECT_FALSE(pair.a.poll_send().has_value());
    EXPECT_EQ(counter, 42U);
    std::uint64_t original = 0;
    std::memcpy(&original, pair.a.memory.data() + 600'000, 8);
    EXPECT_EQ(original, 41U);
    EXPECT_TRUE(std::equal(pair.a.memory.begin() + 500'000, pair.a.memory.begin() + 502'500,
                           pair.a.memory.begin()));
    EXPECT_TRUE(std::equal(pair.a.memory.begin() + 20'000, pair.a.memory.begin() + 20'900,
                           pair.b.memory.begin() + 10'700));
    EXPECT_TRUE(pair.b.poll_recv().has_value());
    EXPECT_FALSE(pair.b.poll_recv().has_value());
  }
}

// C9-138: 4.096 us times a power of two, from the packet that requests an acknowledgement or from
// progress.
TEST(Retransmit, WaitsForTheAcknowledgementTimeout) {
  QpPair pair({.timeout = 10});
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 8)});
  EXPECT_EQ(pair.a.qp().deadline(), kNever);
  (void)pair.transmit(pair.a);
  EXPECT_EQ(pair.a.qp().deadline(), pair.now + 4'096 * 1'024);
  ASSERT_TRUE(pair.next_deadline());
  pair.exchange();
  EXPECT_TRUE(pair.a.poll_send().has_value());
  EXPECT_EQ(pair.a.qp().deadline(), kNever);
}

// SQD -> SQD may set the timeout; what is outstanding has none yet, and nothing else is sent.
TEST(Retransmit, ATimeoutThatIsSetInSqdHoldsForWhatIsOutstanding) {
  QpPair pair({.timeout = 0});
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 8)});
  (void)pair.transmit(pair.a);
  QpAttributes drained = pair.attributes(true);
  drained.state = QpState::kSqd;
  pair.a.modify(drained, kQpMaskState, pair.now);
  EXPECT_EQ(pair.a.qp().deadline(), kNever);
  drained.timeout = 10;
  pair.a.modify(drained, kQpMaskState | kQpMaskTimeout, pair.now);
  EXPECT_EQ(pair.a.qp().deadline(), pair.now + 4'096 * 1'024);
  ASSERT_TRUE(pair.next_deadline());
  pair.exchange();
  EXPECT_TRUE(pair.a.poll_send().has_value());
}

TEST(Retransmit, ADeadPeerIsDetectedEvenIfTheProgramGoesOnPosting) {
  QpPair pair({.timeout = 10});
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 8)});
  auto first = pair.transmit(pair.a);
  const Time deadline = pair.a.qp().deadline();
  pair.now += 4'096 * 512;
  pair.a.post_send(rdma_wr(2, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 8)});
  EXPECT_EQ(pair.transmit(pair.a).size(), 1U);
  EXPECT_EQ(pair.a.qp().deadline(), deadline);
  // Progress is a sign of life, even if the packets sent last aren't acknowledged by it.
  EXPECT_EQ(pair.deliver(pair.b, *first.front()), Drop::kNone);
  auto answer = pair.transmit(pair.b);
  EXPECT_EQ(pair.deliver(pair.a, *answer.front()), Drop::kNone);
  EXPECT_EQ(pair.a.qp().deadline(), pair.now + 4'096 * 1'024);
}

// On a slow port the packets between two acknowledgement requests take longer than the timeout.
TEST(Retransmit, TheTimerRestartsUntilAnAcknowledgementIsRequested) {
  QpPair pair({.path_mtu = 256, .psn_a = 1, .timeout = 10});
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 20'000)});
  for (int i = 0; i < 31; ++i) {
    pair.now += 4'096 * 1'000;
    EXPECT_EQ(pair.transmit(pair.a, 1).size(), 1U);
    EXPECT_EQ(pair.a.qp().deadline(), pair.now + 4'096 * 1'024);
  }
}

TEST(Retransmit, NeverTimesOutWithATimeoutOfZero) {
  QpPair pair({.timeout = 0});
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 8)});
  (void)pair.transmit(pair.a);
  EXPECT_EQ(pair.a.qp().deadline(), kNever);
}

// 9.9.2.1.2: retry_cnt 2 means 1 + 2 tries; 7 is 7.
TEST(Retransmit, GivesUpAfterRetryCnt) {
  for (const std::uint8_t retry_cnt : std::initializer_list<std::uint8_t>{0, 2, 7}) {
    QpPair pair({.retry_cnt = retry_cnt});
    pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, pair.b, 0, 0), std::array{pair.a.sge(0, 8)});
    pair.a.post_send(rdma_wr(2, WrOpcode::kRdmaWrite, pair.b, 0, 0), std::array{pair.a.sge(0, 8)});
    pair.b.post_recv(3, {});
    int tries = 0;
    pair.run([&](const Packet& packet, bool) {
      tries += packet.psn == 100 ? 1 : 0;
      return true;
    });
    EXPECT_EQ(tries, 1 + retry_cnt);
    const auto failed = pair.a.poll_send();
    ASSERT_TRUE(failed.has_value());
    EXPECT_EQ(failed->wr_id, 1U);
    EXPECT_EQ(failed->status, WcStatus::kRetryExcErr);
    const auto flushed = pair.a.poll_send();
    ASSERT_TRUE(flushed.has_value());
    EXPECT_EQ(flushed->wr_id, 2U);
    EXPECT_EQ(flushed->status, WcStatus::kWrFlushErr);
    EXPECT_EQ(pair.a.qp().state(), QpState::kErr);
    EXPECT_EQ(pair.a.qp().deadline(), kNever);
  }
}

// Programs change rights or the RNR timer of connected queue pairs.
TEST(Retransmit, AModifyOfSomethingElseRefillsNothing) {
  QpPair pair({.retry_cnt = 2, .rnr_retry = 2});
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 8)});
  int tries = 0;
  pair.run([&](const Packet&, bool) {
    ++tries;
    pair.a.modify({.state = QpState::kRts, .access = kAccessRemoteRead},
                  kQpMaskState | kQpMaskAccess, pair.now);
    return true;
  });
  EXPECT_EQ(tries, 3);
  ASSERT_TRUE(pair.a.poll_send());

  QpPair unready({.retry_cnt = 2, .rnr_retry = 2});
  unready.a.post_send(send_wr(1, WrOpcode::kSend), std::array{unready.a.sge(0, 8)});
  tries = 0;
  unready.run([&](const Packet&, bool to_b) {
    tries += to_b ? 1 : 0;
    unready.a.modify({.min_rnr_timer = 1}, kQpMaskMinRnrTimer, unready.now);
    return false;
  });
  EXPECT_EQ(tries, 3);
  ASSERT_TRUE(unready.a.poll_send());
}

// A larger window would burst into a network whose state is unknown.
TEST(Retransmit, AModifyOfSomethingElseLeavesTheWindow) {
  PairConfig config;
  config.a.shares_network = true;
  QpPair pair(config);
  for (std::uint64_t id = 0; id < 16; ++id) {
    pair.a.post_send(rdma_wr(id, WrOpcode::kRdmaWrite, pair.b, 0),
                     std::array{pair.a.sge(0, 32 << 10U)});
  }
  std::size_t most = 0;
  const auto transmit = [&] {
    const QpPair::Frames frames = pair.transmit(pair.a);
    most = std::max(most, frames.size());
    for (const auto& frame : frames) {
      EXPECT_EQ(pair.deliver(pair.b, *frame), Drop::kNone);
    }
    for (const auto& frame : pair.transmit(pair.b)) {
      EXPECT_EQ(pair.deliver(pair.a, *frame), Drop::kNone);
    }
    return frames.size();
  };
  for (int i = 0; i < 2; ++i) {
    transmit();
  }
  const std::size_t grown = most;
  pair.a.modify({.access = kAccessRemoteRead}, kQpMaskAccess, pair.now);
  EXPECT_GE(transmit(), grown);
}

TEST(Retransmit, ProgressRefillsRetryCnt) {
  QpPair pair({.retry_cnt = 1});
  for (std::uint64_t id = 0; id < 20; ++id) {
    pair.a.post_send(rdma_wr(id, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 8)});
  }
  // Each packet is lost once.
  std::uint32_t got = 0;
  std::uint32_t tried = 0;
  pair.run(
      [&](const Packet& packet, bool to_b) {
        if (!to_b || packet.psn < 100 + got) {
          return false;
        }
        if (packet.psn == 100 + got && tried == got + 1) {
          ++got;
          return false;
        }
        tried = got + 1;
        return true;
      },
      100);
  for (std::uint64_t id = 0; id < 20; ++id) {
    const auto cqe = pair.a.poll_send();
    ASSERT_TRUE(cqe.has_value());
    EXPECT_EQ(cqe->status, WcStatus::kSuccess);
  }
}

// With rnr_retry 7 the requester waits for a receive without limit.
TEST(Retransmit, RnrRetrySevenWaitsWithoutLimit) {
  QpPair pair({.rnr_retry = 7, .min_rnr_timer = 12});
  pair.a.post_send(send_wr(1, WrOpcode::kSend), std::array{pair.a.sge(0, 3'000)});
  pair.run({}, 50);
  EXPECT_GE(pair.a.qp().counters().rnr_nak_retry_err, 50U);
  EXPECT_FALSE(pair.a.poll_send().has_value());
  pair.b.post_recv(2, std::array{pair.b.sge(0, 4'000)});
  pair.run();
  const auto cqe = pair.a.poll_send();
  ASSERT_TRUE(cqe.has_value());
  EXPECT_EQ(cqe->status, WcStatus::kSuccess);
}

// A receiver that isn't ready is alive: losses while waiting for it don't add up to retry_cnt.
TEST(Retransmit, AnRnrNakRefillsRetryCnt) {
  QpPair pair({.retry_cnt = 1, .rnr_retry = 7});
  pair.a.post_send(send_wr(1, WrOpcode::kSend), std::array{pair.a.sge(0, 8)});
  int tries = 0;
  pair.run([&](const Packet&, bool to_b) { return to_b && tries++ % 2 == 0; }, 40);
  EXPECT_GT(pair.a.qp().counters().local_ack_timeout_err, 10U);
  EXPECT_FALSE(pair.a.poll_send().has_value());
  EXPECT_EQ(pair.a.qp().state(), QpState::kRts);
}

TEST(Retransmit, GivesUpWaitingForAReceive) {
  QpPair pair({.rnr_retry = 2});
  pair.a.post_send(send_wr(1, WrOpcode::kSend), std::array{pair.a.sge(0, 8)});
  pair.run();
  EXPECT_EQ(pair.a.qp().counters().rnr_nak_retry_err, 3U);
  const auto cqe = pair.a.poll_send();
  ASSERT_TRUE(cqe.has_value());
  EXPECT_EQ(cqe->status, WcStatus::kRnrRetryExcErr);
}

// A late acknowledgement overtakes the retransmission, whose cursor moves on with it.
TEST(Retransmit, SkipsPacketsAcknowledgedMeanwhile) {
  QpPair pair;
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 4'096)});
  for (const auto& frame : pair.transmit(pair.a)) {
    EXPECT_EQ(pair.deliver(pair.b, *frame), Drop::kNone);
  }
  const auto late = pair.transmit(pair.b);
  ASSERT_EQ(late.size(), 1U);
  ASSERT_TRUE(pair.next_deadline());
  ASSERT_EQ(pair.transmit(pair.a, 1).size(), 1U);
  EXPECT_EQ(pair.deliver(pair.a, *late[0]), Drop::kNone);
  EXPECT_TRUE(pair.a.poll_send().has_value());
  EXPECT_FALSE(pair.a.qp().has_work());
  EXPECT_EQ(pair.a.qp().deadline(), kNever);
}

// 9.7.6.1.3: the timer runs for between one and four times the attribute's time.
TEST(RetransmitTimer, WaitsLongerForASilentPeer) {
  QpPair pair({.timeout = 14, .retry_cnt = 4});
  constexpr Duration kTimeout = Duration{4'096} << 14U;
  pair.a.post_send(rdma_wr(1, abi::WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 8)});
  std::vector<Duration> waits;
  while (!pair.transmit(pair.a).empty()) {
    waits.push_back((pair.a.qp().deadline() - pair.now) / kTimeout);
    ASSERT_TRUE(pair.next_deadline());
  }
  EXPECT_EQ(waits, (std::vector<Duration>{1, 2, 4, 4, 4}));
  const auto cqe = pair.a.poll_send();
  ASSERT_TRUE(cqe.has_value());
  EXPECT_EQ(cqe->status, abi::WcStatus::kRetryExcErr);
}

// A NAK uses up a retry, but comes from the peer: if the retransmission is lost, too, it times out
// after the attribute's time.
TEST(RetransmitTimer, ANakDoesNotLengthenIt) {
  QpPair pair({.timeout = 14, .retry_cnt = 4});
  pair.a.recovery = Recovery::kGoBackN;  // nothing but the timer then
  constexpr Duration kTimeout = Duration{4'096} << 14U;
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 4'096)});
  auto frames = pair.transmit(pair.a);
  ASSERT_EQ(frames.size(), 4U);
  for (const std::size_t arrives : {0U, 2U, 3U}) {
    (void)pair.deliver(pair.b, *frames[arrives]);
  }
  for (const auto& nak : pair.transmit(pair.b)) {
    EXPECT_EQ(pair.deliver(pair.a, *nak), Drop::kNone);
  }
  ASSERT_EQ(pair.a.qp().counters().packet_seq_err, 1U);
  ASSERT_EQ(pair.transmit(pair.a).size(), 3U);
  EXPECT_EQ((pair.a.qp().deadline() - pair.now) / kTimeout, 1U);
}

// Nor does it after timeouts: those were the network's, not due to a busy peer.
TEST(RetransmitTimer, AnAnswerFromThePeerEndsTheLongerWaits) {
  QpPair pair({.timeout = 14, .retry_cnt = 7});
  pair.a.recovery = Recovery::kGoBackN;  // nothing but the timer then
  constexpr Duration kTimeout = Duration{4'096} << 14U;
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 2'048)});
  (void)pair.transmit(pair.a);
  for (int lost = 0; lost < 2; ++lost) {
    ASSERT_TRUE(pair.next_deadline());
    (void)pair.transmit(pair.a);
  }
  EXPECT_EQ((pair.a.qp().deadline() - pair.now) / kTimeout, 4U);
  ASSERT_TRUE(pair.next_deadline());
  auto frames = pair.transmit(pair.a);
  ASSERT_EQ(frames.size(), 2U);
  (void)pair.deliver(pair.b, *frames[1]);  // ahead of the one that was lost: a NAK of the first
  for (const auto& nak : pair.transmit(pair.b)) {
    EXPECT_EQ(pair.deliver(pair.a, *nak), Drop::kNone);
  }
  ASSERT_EQ(pair.a.qp().counters().packet_seq_err, 1U);
  ASSERT_EQ(pair.transmit(pair.a).size(), 2U);
  EXPECT_EQ((pair.a.qp().deadline() - pair.now) / kTimeout, 1U);
}

}  // namespace
}  // namespace uroce::test
