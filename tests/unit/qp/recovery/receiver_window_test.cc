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

TEST(ReceiverWindow, IsNarrowAgainAfterTheNextRnrNak) {
  ReceiverWindow window;
  window.not_ready(0);
  window.taken(1);
  window.taken(2);
  EXPECT_TRUE(window.covers(3));
  window.not_ready(3);
  EXPECT_FALSE(window.covers(3));
  window.taken(4);
  EXPECT_FALSE(window.covers(4));
  window.taken(5);
  EXPECT_TRUE(window.covers(6));
  EXPECT_FALSE(window.covers(7));
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

TEST_F(NotReady, TwoMessagesGoAloneThenTwiceAsManyEachTime) {
  post(9, WrOpcode::kSend);
  EXPECT_EQ(sends().size(), 9U);
  not_ready(100);
  EXPECT_EQ(sends(), (Psns{100}));
  not_ready(100);
  EXPECT_EQ(sends(), (Psns{100}));
  acknowledge(100);
  EXPECT_EQ(sends(), (Psns{101}));
  acknowledge(101);
  EXPECT_EQ(sends(), (Psns{102, 103}));
  acknowledge(103);
  EXPECT_EQ(sends(), (Psns{104, 105, 106, 107}));
  not_ready(105);
  EXPECT_EQ(sends(), (Psns{105}));
  acknowledge(105);
  EXPECT_EQ(sends(), (Psns{106}));
  acknowledge(106);
  EXPECT_EQ(sends(), (Psns{107, 108}));
  EXPECT_EQ(pair.a.qp().counters().rnr_nak_retry_err, 3U);
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
  post(1, WrOpcode::kRdmaWrite);
  EXPECT_EQ(sends(), (Psns{100}));
  acknowledge(100);
  EXPECT_EQ(sends(), (Psns{101}));
  acknowledge(101);
  EXPECT_EQ(sends(), (Psns{102, 103}));
}

// A WRITE with immediate takes its receive with its last packet.
TEST_F(NotReady, AWriteWithImmediateAsksWithItsLastPacket) {
  post(2, WrOpcode::kRdmaWriteWithImm, 3'000);  // PSNs 100 to 105
  EXPECT_EQ(sends().size(), 6U);
  not_ready(102);
  EXPECT_EQ(sends(), (Psns{102}));
  EXPECT_TRUE(asks);
  acknowledge(102);
  EXPECT_EQ(sends(), (Psns{103}));
  acknowledge(103);
  EXPECT_EQ(sends(), (Psns{104, 105}));
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
