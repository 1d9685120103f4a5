// Whether the peer buffers out-of-order packets, as shown by its answer after a single packet was
// retransmitted.

#include "dataplane/qp/recovery/peer_buffering.h"

#include <gtest/gtest.h>

namespace uroce::test {
namespace {

using Next = PeerBuffering::Next;

// The class's own private bounds.
constexpr std::uint32_t kRowMax = 4;
constexpr std::uint32_t kRowMaxTold = 64;
constexpr std::uint32_t kTryEvery = 64;

class PeerBufferingTest : public testing::Test {
 protected:
  // A single packet is retransmitted, and the peer then has that one and nothing after it.
  void show_that_it_buffers_nothing() {
    ASSERT_TRUE(peer_.resend_single(100, 1));
    ASSERT_EQ(peer_.acknowledged(101, 1), Next::kAll);
  }
  // The same, but the peer has everything after it.
  void show_that_it_buffers() {
    ASSERT_TRUE(peer_.resend_single(100, 1));
    ASSERT_EQ(peer_.acknowledged(110, 1), Next::kGoOn);
  }
  // How often in a row, from `psn` on, the peer may advance by a single packet.
  std::uint32_t row(std::uint32_t psn) {
    EXPECT_TRUE(peer_.resend_single(psn, 1));
    for (std::uint32_t count = 1;; ++count) {
      if (peer_.acknowledged(++psn, 1) != Next::kSingle) {
        return count;
      }
    }
  }

  PeerBuffering peer_;
};

TEST_F(PeerBufferingTest, AnUnknownPeerGetsOnlyTheMissingPacket) {
  EXPECT_TRUE(peer_.resend_single(100, 1));
}

TEST_F(PeerBufferingTest, AnAcknowledgementFarBeyondShowsThatItBuffers) {
  show_that_it_buffers();
  EXPECT_EQ(row(200), kRowMax);
}

TEST_F(PeerBufferingTest, AnAcknowledgementOfThatPacketAloneShowsThatItBuffersNothing) {
  show_that_it_buffers_nothing();
  EXPECT_FALSE(peer_.resend_single(200, 1));
}

TEST_F(PeerBufferingTest, WithNothingSentAfterThatPacketItShowsNothing) {
  EXPECT_TRUE(peer_.resend_single(100, 1));
  EXPECT_EQ(peer_.acknowledged(101, 0), Next::kGoOn);
  EXPECT_TRUE(peer_.resend_single(200, 1));
}

TEST_F(PeerBufferingTest, AnAcknowledgementUpToThatPacketShowsNothing) {
  EXPECT_EQ(peer_.acknowledged(90, 1), Next::kGoOn) << "nothing was retransmitted";
  EXPECT_TRUE(peer_.resend_single(100, 1));
  EXPECT_EQ(peer_.acknowledged(99, 1), Next::kGoOn);
  EXPECT_EQ(peer_.acknowledged(100, 1), Next::kGoOn);
  EXPECT_EQ(peer_.acknowledged(101, 1), Next::kAll)
      << "the previous ones don't count as the answer";
}

TEST_F(PeerBufferingTest, JudgesAcrossThePsnWrap) {
  EXPECT_TRUE(peer_.resend_single(kPsnMask, 1));
  EXPECT_EQ(peer_.acknowledged(0, 1), Next::kAll);
  EXPECT_FALSE(peer_.resend_single(1, 1));
}

// The next packet may have been lost, too; a second such NAK is conclusive.
TEST_F(PeerBufferingTest, ANakOfTheVeryNextPacketIsInconclusive) {
  EXPECT_TRUE(peer_.resend_single(100, 1));
  EXPECT_FALSE(peer_.resend_single(101, 1)) << "this time everything is retransmitted";
  EXPECT_TRUE(peer_.resend_single(200, 1)) << "nothing is decided yet";
  EXPECT_FALSE(peer_.resend_single(201, 1));
  EXPECT_FALSE(peer_.resend_single(300, 1));
}

TEST_F(PeerBufferingTest, ANakFarBeyondShowsThatItBuffers) {
  EXPECT_TRUE(peer_.resend_single(100, 1));
  EXPECT_FALSE(peer_.resend_single(101, 1));
  EXPECT_TRUE(peer_.resend_single(200, 1));
  EXPECT_TRUE(peer_.resend_single(205, 1)) << "that NAK is a new loss";
  EXPECT_EQ(peer_.acknowledged(206, 1), Next::kSingle);
}

TEST_F(PeerBufferingTest, APeerShownToBufferMayAdvanceByOneAFewTimes) {
  show_that_it_buffers();
  EXPECT_EQ(row(200), kRowMax);
  EXPECT_FALSE(peer_.resend_single(300, 1)) << "after that it counts as buffering nothing";
}

TEST_F(PeerBufferingTest, APeerThatReportsBufferingMayDoSoMoreOften) {
  peer_.set_reported(true);
  EXPECT_EQ(row(200), kRowMaxTold);
}

TEST_F(PeerBufferingTest, APeerThatReportsBufferingNothingIsJudgedByItsAnswers) {
  peer_.set_reported(true);
  peer_.set_reported(false);
  EXPECT_EQ(row(200), kRowMax);
}

TEST_F(PeerBufferingTest, ALaterReportOverridesTheJudgement) {
  show_that_it_buffers_nothing();
  peer_.set_reported(true);
  EXPECT_TRUE(peer_.resend_single(200, 1));
  EXPECT_EQ(peer_.acknowledged(201, 1), Next::kSingle);
}

TEST_F(PeerBufferingTest, APeerThatBuffersNothingIsProbedNowAndThen) {
  show_that_it_buffers_nothing();
  std::uint32_t tried = 0;
  for (std::uint32_t loss = 1; loss <= 2 * kTryEvery; ++loss) {
    if (peer_.resend_single(1'000 * loss, 1)) {
      ++tried;
      EXPECT_EQ(loss % kTryEvery, 0U);
      EXPECT_EQ(peer_.acknowledged(1'000 * loss + 1, 1), Next::kAll);
    }
  }
  EXPECT_EQ(tried, 2U);
}

TEST_F(PeerBufferingTest, AProbeMayShowThatItBuffers) {
  show_that_it_buffers_nothing();
  for (std::uint32_t loss = 1; loss < kTryEvery; ++loss) {
    ASSERT_FALSE(peer_.resend_single(1'000 * loss, 1));
  }
  EXPECT_TRUE(peer_.resend_single(200'000, 1));
  EXPECT_EQ(peer_.acknowledged(200'050, 1), Next::kGoOn);
  EXPECT_TRUE(peer_.resend_single(300'000, 1));
}

// A READ request has as many PSNs as responses. The next one's NAK is that of the very next packet.
TEST_F(PeerBufferingTest, TheNextPacketIsTheOneBehindAllPsns) {
  constexpr std::uint32_t kPsns = 16;
  EXPECT_TRUE(peer_.resend_single(100, kPsns));
  EXPECT_EQ(peer_.acknowledged(108, kPsns), Next::kGoOn) << "half of it";
  EXPECT_FALSE(peer_.resend_single(100 + kPsns, kPsns)) << "a doubt";
  EXPECT_TRUE(peer_.resend_single(200, kPsns));
  EXPECT_FALSE(peer_.resend_single(200 + kPsns, kPsns));
  EXPECT_FALSE(peer_.resend_single(300, kPsns)) << "it buffers nothing";
}

// Responses beyond the READ that was sent again, however the peer came to execute their requests.
TEST_F(PeerBufferingTest, AfterLaterResponsesANakShowsNothing) {
  EXPECT_TRUE(peer_.resend_single(100, 2));
  peer_.answered(102);
  EXPECT_TRUE(peer_.watches()) << "the next one may still be asked for";
  peer_.answered(103);
  EXPECT_FALSE(peer_.watches());
}

TEST_F(PeerBufferingTest, AfterGoingBackAnAcknowledgementShowsNothing) {
  EXPECT_TRUE(peer_.resend_single(100, 1));
  peer_.gone_back();
  EXPECT_EQ(peer_.acknowledged(101, 1), Next::kGoOn);
  EXPECT_TRUE(peer_.resend_single(200, 1));
}

}  // namespace
}  // namespace uroce::test
