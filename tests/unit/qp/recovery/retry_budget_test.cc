// When a requester gives up: on a peer that stays silent for as long as the retries take in the
// worker's running time, or on one that answers but makes no progress.

#include "dataplane/qp/recovery/retry_budget.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>

#include "tests/unit/qp/qp_pair.h"

namespace uroce::test {
namespace {

using abi::WcStatus;
using abi::WrOpcode;

constexpr std::uint8_t kRetries = 7;

class PatienceTest : public testing::Test {
 protected:
  void post_write(std::size_t length) {
    pair_.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, pair_.b, 0),
                      std::array{pair_.a.sge(0, length)});
  }
  // Sends, loses all of it, and waits for the next deadline; the worker runs for a part of that
  // time. False if there is no deadline.
  bool lose_a_try(double running = 1) {
    (void)pair_.transmit(pair_.a);
    const Time due = pair_.a.qp().deadline();
    if (due != kNever) {
      pair_.a.absent += static_cast<Duration>(static_cast<double>(due - pair_.now) * (1 - running));
    }
    return pair_.next_deadline();
  }
  int tries_until_it_ends() {
    int tries = 0;
    while (!(end_ = pair_.a.poll_send()) && lose_a_try()) {
      ++tries;
    }
    return tries;
  }
  int naks_until_it_ends() {
    post_write(1'024 + 8);
    int naks = 0;
    while (!(end_ = pair_.a.poll_send()) && naks < 1'000) {
      ++naks;
      (void)pair_.transmit(pair_.a);
      peer_says(kSyndromeNak, 100, Drop::kNone);
      if (!pair_.a.qp().has_work()) {  // one early retry only: the timer makes the next
        (void)pair_.next_deadline();
      }
    }
    EXPECT_TRUE(end_ && end_->status == WcStatus::kRetryExcErr);
    EXPECT_TRUE(end_ && failure() == Failure::kRetriesInVain);
    return naks;
  }
  // The peer sends an acknowledgement of something acknowledged long ago, or a NAK of an
  // outstanding packet.
  void peer_says(std::uint8_t syndrome, std::uint32_t psn, Drop drop) {
    const auto frame = pair_.forge(
        pair_.a, {.opcode = Opcode::kRcAcknowledge, .psn = psn, .aeth = {.syndrome = syndrome}});
    EXPECT_EQ(pair_.deliver(pair_.a, *frame), drop);
  }
  void peer_speaks() { peer_says(kSyndromeAckUnlimited, 50, Drop::kStaleResponse); }
  [[nodiscard]] Failure failure() const { return static_cast<Failure>(end_->vendor_err); }

  QpPair pair_{{.timeout = 14, .retry_cnt = kRetries}};
  std::optional<abi::Cqe> end_;
};

TEST_F(PatienceTest, ASilentPeerIsGivenUpAfterRetryCntRetries) {
  post_write(8);
  EXPECT_EQ(tries_until_it_ends(), 1 + kRetries);
  ASSERT_TRUE(end_);
  EXPECT_EQ(end_->status, WcStatus::kRetryExcErr);
  EXPECT_EQ(failure(), Failure::kRetriesExhausted);
}

// A worker that is kept from its processor retransmits, but may have missed answers meanwhile.
TEST_F(PatienceTest, TheWorkersAbsenceIsNotThePeersSilence) {
  post_write(8);
  for (int round = 0; round < 100; ++round) {
    ASSERT_TRUE(lose_a_try(0)) << round;
    ASSERT_FALSE(pair_.a.poll_send()) << round;
  }
  // From here on it runs normally: by now at the timer's longest intervals.
  EXPECT_LE(tries_until_it_ends(), 1 + kRetries);
  ASSERT_TRUE(end_);
  EXPECT_EQ(failure(), Failure::kRetriesExhausted);
}

TEST_F(PatienceTest, AwayHalfOfTheTimeItWaitsTwiceAsLong) {
  post_write(8);
  const Time begin = pair_.now;
  while (!(end_ = pair_.a.poll_send())) {
    ASSERT_TRUE(lose_a_try(0.5));
  }
  constexpr Duration kTimeout = Duration{4'096} << 14U;
  EXPECT_GE(pair_.now - begin, 2 * 27 * kTimeout);  // 1 + 2 + 6 * 4
  EXPECT_LE(pair_.now - begin, (2 * 27 + 4) * kTimeout);
}

// The peer is alive, so elapsed time doesn't count. But it makes no progress, so retries are
// limited.
TEST_F(PatienceTest, APeerThatMakesNoProgressIsGivenUpLate) {
  post_write(8);
  int tries = 0;
  while (!(end_ = pair_.a.poll_send())) {
    ASSERT_LT(++tries, 1'000);
    ASSERT_TRUE(lose_a_try());
    if (pair_.a.qp().state() == QpState::kRts) {
      peer_speaks();
    }
  }
  // The peer wasn't heard before the first retry.
  EXPECT_EQ(tries, 1 + static_cast<int>(RetryBudget::kAliveFactor) * kRetries + 1);
  EXPECT_EQ(end_->status, WcStatus::kRetryExcErr);
  EXPECT_EQ(failure(), Failure::kRetriesInVain);
}

// A single packet from the peer starts the measurement of its silence anew.
TEST_F(PatienceTest, AnyPacketFromThePeerEndsTheSilence) {
  post_write(8);
  for (int round = 0; round < kRetries; ++round) {
    ASSERT_TRUE(lose_a_try());
  }
  peer_speaks();
  EXPECT_EQ(tries_until_it_ends(), kRetries);  // at the longest interval: 7 * 4 of 27
  EXPECT_EQ(failure(), Failure::kRetriesExhausted);
}

// A peer that reports the same packet as missing again and again, for whatever reason.
TEST_F(PatienceTest, EndlessNaksAreLimited) {
  pair_.a.recovery = Recovery::kGoBackN;
  EXPECT_EQ(naks_until_it_ends(), 1 + static_cast<int>(RetryBudget::kAliveFactor) * kRetries);
}

// The packet that the NAK names is also retransmitted alone, which doesn't count as a retry.
TEST_F(PatienceTest, EndlessNaksAreLimitedWithSinglePacketRetransmission) {
  EXPECT_GT(naks_until_it_ends(), 1 + static_cast<int>(RetryBudget::kAliveFactor) * kRetries);
}

TEST(RetryBudget, WithoutRetriesANakFailsGoBackN) {
  QpPair pair({.retry_cnt = 0});
  pair.a.recovery = Recovery::kGoBackN;
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 3'000)});
  pair.exchange([](const Packet& packet, bool to_b) { return to_b && packet.psn == 100; });
  const auto end = pair.a.poll_send();
  ASSERT_TRUE(end);
  EXPECT_EQ(end->status, WcStatus::kRetryExcErr);
}

}  // namespace
}  // namespace uroce::test
