// What a requester retransmits by itself, and when it sends a probe: times and PSNs only.

#include "dataplane/qp/recovery/repair.h"

#include <gtest/gtest.h>

#include <vector>

namespace uroce::test {
namespace {

constexpr Time kStart = kNanosecondsPerSecond;
constexpr Duration kTrip = kNanosecondsPerMillisecond;
// After a single round-trip sample, whose deviation is half of it.
constexpr Duration kShortPatience = 3 * kTrip;
constexpr Duration kRepairTimeout = 4 * kTrip;

class RepairTest : public testing::Test {
 protected:
  void measure() { repair_.measured(kTrip); }
  // Sends all pending retransmissions; returns their PSNs.
  std::vector<std::uint32_t> send(std::uint32_t high_psn = 1'000) {
    std::vector<std::uint32_t> sent;
    while (repair_.has_waiting()) {
      Hole& hole = repair_.next_waiting();
      sent.push_back(hole.psn);
      repair_.retransmitted(hole, high_psn, now_);
    }
    EXPECT_EQ(repair_.waiting(), 0U);
    return sent;
  }
  bool pass(Duration time, bool may_probe = true) {
    return repair_.on_time(now_ += time, may_probe);
  }

  Repair repair_;
  Time now_ = kStart;
};

using Psns = std::vector<std::uint32_t>;

TEST_F(RepairTest, HolesAreSentInPsnOrderWhicheverWasFoundFirst) {
  EXPECT_TRUE(repair_.add(12, 1));
  EXPECT_TRUE(repair_.add(3, 1));
  EXPECT_TRUE(repair_.add(7, 1));
  EXPECT_EQ(repair_.waiting(), 3U);
  EXPECT_EQ(send(), (Psns{3, 7, 12}));
  EXPECT_TRUE(repair_.has_holes()) << "until they are answered";
}

TEST_F(RepairTest, AlsoAcrossThePsnWrap) {
  EXPECT_TRUE(repair_.add(1, 1));
  EXPECT_TRUE(repair_.add(kPsnMask, 1));
  EXPECT_EQ(send(), (Psns{kPsnMask, 1}));
  repair_.advanced(0, now_);
  EXPECT_FALSE(repair_.in(kPsnMask, 1));
  EXPECT_TRUE(repair_.in(kPsnMask, 2));
}

TEST_F(RepairTest, AKnownHoleIsNotSentTwice) {
  EXPECT_TRUE(repair_.add(5, 1));
  EXPECT_EQ(send(), Psns{5});
  EXPECT_TRUE(repair_.add(5, 1));
  EXPECT_EQ(send(), Psns{});
}

TEST_F(RepairTest, TheNumberOfHolesIsBounded) {
  for (std::uint32_t i = 0; i < Repair::kHolesMax; ++i) {
    ASSERT_TRUE(repair_.add(2 * i, 1));
  }
  EXPECT_FALSE(repair_.add(1, 1));
  EXPECT_FALSE(repair_.add_behind(1, 500));
  repair_.add_again(1, 1);
  EXPECT_EQ(repair_.waiting(), Repair::kHolesMax);
  EXPECT_TRUE(repair_.add(4, 1)) << "it is a known hole";
  repair_.advanced(1, now_);
  EXPECT_TRUE(repair_.add(1, 1));
}

// A response that was requested after the repair shows that the repair was lost.
TEST_F(RepairTest, AHoleOfAReadIsSentAgainOnceSomethingLaterIsAnswered) {
  EXPECT_FALSE(repair_.again_behind(4, 10, 2'000)) << "there is none";
  EXPECT_TRUE(repair_.add(5, 3));
  EXPECT_EQ(send(1'000), Psns{5});
  EXPECT_TRUE(repair_.again_behind(4, 10, 999));
  EXPECT_EQ(send(), Psns{});
  EXPECT_TRUE(repair_.again_behind(4, 10, 1'000));
  EXPECT_TRUE(repair_.again_behind(4, 10, 1'000));
  EXPECT_EQ(send(1'100), Psns{5});
  EXPECT_TRUE(repair_.again_behind(4, 10, 1'000)) << "sent again since";
  EXPECT_EQ(send(), Psns{});
}

TEST_F(RepairTest, AProbeThatCannotBeSentDoesNotCount) {
  measure();
  repair_.watch(true, now_);
  const Time first = repair_.deadline();
  EXPECT_FALSE(pass(first - now_, false));
  EXPECT_FALSE(repair_.probing());
  EXPECT_EQ(repair_.deadline() - now_, 2 * (first - kStart)) << "the worker isn't woken often";
  repair_.watch(true, now_);
  EXPECT_EQ(repair_.deadline() - now_, first - kStart) << "something was sent";
  EXPECT_TRUE(pass(repair_.deadline() - now_));
  EXPECT_TRUE(repair_.probing());
}

TEST_F(RepairTest, InsistingSendsItOnceMore) {
  repair_.add_again(5, 1);
  EXPECT_EQ(send(), Psns{5});
  repair_.add_again(5, 1);
  repair_.add_again(5, 1);
  EXPECT_EQ(repair_.waiting(), 1U);
  EXPECT_EQ(send(), Psns{5});
}

// If the peer has a packet that was sent after the retransmission, the retransmission is lost;
// packets sent before it show nothing.
TEST_F(RepairTest, ARetransmissionIsLostIfThePeerHasLaterPackets) {
  EXPECT_TRUE(repair_.add_behind(5, 30));
  EXPECT_EQ(send(40), Psns{5});
  EXPECT_TRUE(repair_.add_behind(5, 39));
  EXPECT_EQ(send(40), Psns{});
  EXPECT_TRUE(repair_.add_behind(5, 40));
  EXPECT_TRUE(repair_.add_behind(5, 41));
  EXPECT_EQ(repair_.waiting(), 1U);
  EXPECT_EQ(send(50), Psns{5});
}

TEST_F(RepairTest, AcknowledgedPsnsAreNoHoles) {
  EXPECT_TRUE(repair_.add(5, 1));
  EXPECT_TRUE(repair_.add(8, 1));
  repair_.advanced(8, now_);
  EXPECT_EQ(send(), Psns{8});
  repair_.advanced(9, now_);
  EXPECT_FALSE(repair_.has_holes());
  EXPECT_EQ(repair_.deadline(), kNever);
}

TEST_F(RepairTest, AReportOfReceivedPacketsClosesHoles) {
  for (const std::uint32_t psn : {5U, 6U, 9U, 20U}) {
    EXPECT_TRUE(repair_.add(psn, 1));
  }
  EXPECT_TRUE(repair_.add(30, 4));
  repair_.closed([](std::uint32_t psn) { return psn != 9; }, now_);
  EXPECT_EQ(send(), (Psns{9, 30})) << "the report doesn't cover responses";
}

TEST_F(RepairTest, APartialReadResponseLeavesTheRestMissing) {
  EXPECT_TRUE(repair_.add(10, 3));
  EXPECT_EQ(send(), Psns{10});
  EXPECT_FALSE(repair_.filled(11, now_)) << "no request began there";
  EXPECT_FALSE(repair_.filled(10, now_));
  EXPECT_FALSE(repair_.in(10, 11));
  EXPECT_TRUE(repair_.in(10, 12));
  repair_.advanced(12, now_);
  EXPECT_TRUE(repair_.in(12, 13));
  EXPECT_TRUE(repair_.filled(12, now_));
  EXPECT_FALSE(repair_.has_holes());
}

TEST_F(RepairTest, AnUnansweredRetransmissionIsRepeatedWithBackOff) {
  measure();
  EXPECT_TRUE(repair_.add(5, 1));
  for (Duration timeout = kShortPatience; timeout < 100 * kTrip; timeout *= 2) {
    EXPECT_EQ(send(), Psns{5});
    EXPECT_EQ(repair_.deadline(), now_ + timeout);
    EXPECT_FALSE(pass(timeout - 1));
    EXPECT_EQ(send(), Psns{});
    EXPECT_FALSE(pass(1)) << "a hole is no probe";
  }
}

TEST_F(RepairTest, ARetransmissionIsNotRepeatedWhileThePeerAnswersSomethingElse) {
  measure();
  EXPECT_TRUE(repair_.add(5, 1));
  EXPECT_EQ(send(), Psns{5});
  now_ += kShortPatience - 1;
  repair_.heard(now_);
  EXPECT_EQ(repair_.deadline(), now_ + kShortPatience);
}

TEST_F(RepairTest, TheBackOffIsBounded) {
  measure();
  EXPECT_TRUE(repair_.add(5, 1));
  for (std::uint32_t i = 0; i < Repair::kBackOffMax + 20; ++i) {
    EXPECT_EQ(send(), Psns{5});
    EXPECT_LE(repair_.deadline() - now_, kShortPatience << Repair::kBackOffMax);
    pass(repair_.deadline() - now_);
  }
}

TEST_F(RepairTest, WithoutARoundTripSampleTheFirstTimeoutIsLong) {
  EXPECT_TRUE(repair_.add(5, 1));
  EXPECT_EQ(repair_.deadline(), kNever) << "it waits to be sent, not for the peer";
  EXPECT_EQ(send(), Psns{5});
  EXPECT_EQ(repair_.deadline(), now_ + Repair::kTimeoutFirst);
}

// Retransmissions don't wait in the queues in which the packets of programs wait.
TEST_F(RepairTest, RetransmissionsHaveTheirOwnRoundTripEstimate) {
  measure();
  EXPECT_TRUE(repair_.add(5, 1));
  (void)send();
  now_ += kTrip / 5;
  repair_.advanced(6, now_);
  EXPECT_TRUE(repair_.add(9, 1));
  (void)send();
  EXPECT_EQ(repair_.deadline(), now_ + kShortPatience / 5);
}

// It is ambiguous which of the two was answered (Karn).
TEST_F(RepairTest, APacketRetransmittedTwiceIsNoSample) {
  measure();
  EXPECT_TRUE(repair_.add(5, 1));
  (void)send();
  repair_.add_again(5, 1);
  (void)send();
  repair_.advanced(6, now_ += kTrip / 5);
  EXPECT_TRUE(repair_.add(9, 1));
  (void)send();
  EXPECT_EQ(repair_.deadline(), now_ + kShortPatience);
}

TEST_F(RepairTest, ProbesASilentPeerWithBackOff) {
  measure();
  repair_.watch(true, now_);
  for (Duration timeout = kRepairTimeout; timeout < 100 * kTrip; timeout *= 2) {
    EXPECT_EQ(repair_.deadline(), now_ + timeout);
    EXPECT_FALSE(pass(timeout - 1));
    EXPECT_TRUE(pass(1));
    EXPECT_TRUE(repair_.probing());
  }
  repair_.advanced(1, now_);
  EXPECT_FALSE(repair_.probing()) << "the peer has answered";
  repair_.watch(true, now_);
  EXPECT_EQ(repair_.deadline(), now_ + kRepairTimeout);
}

TEST_F(RepairTest, NoProbeIfNothingIsOutstandingOrNoRoundTripIsKnown) {
  repair_.watch(true, now_);
  EXPECT_EQ(repair_.deadline(), kNever);
  measure();
  repair_.watch(false, now_);
  EXPECT_EQ(repair_.deadline(), kNever);
  EXPECT_FALSE(pass(kNanosecondsPerSecond));
}

TEST_F(RepairTest, GoingBackClearsHolesButKeepsTheEstimate) {
  measure();
  EXPECT_TRUE(repair_.add(5, 1));
  repair_.watch(true, now_);
  EXPECT_TRUE(pass(kRepairTimeout));
  repair_.clear();
  EXPECT_FALSE(repair_.has_holes());
  EXPECT_FALSE(repair_.has_waiting());
  EXPECT_FALSE(repair_.probing());
  EXPECT_EQ(repair_.deadline(), kNever);
  repair_.watch(true, now_);
  EXPECT_EQ(repair_.deadline(), now_ + 2 * kRepairTimeout) << "the second probe into a silence";
  repair_.forget();
  repair_.watch(true, now_);
  EXPECT_EQ(repair_.deadline(), kNever) << "a new connection, whose round trip is unknown";
}

}  // namespace
}  // namespace uroce::test
