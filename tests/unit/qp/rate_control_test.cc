// The reaction point of congestion control alone: how a notification changes the rate, and how it
// recovers.

#include "dataplane/qp/congestion/rate_control.h"

#include <gtest/gtest.h>

namespace uroce {
namespace {

constexpr Duration kMicrosecond = kNanosecondsPerMicrosecond;
constexpr Duration kRoundTrip = 100 * kMicrosecond;
constexpr std::uint32_t kFrame = 1'250;  // bytes: 10 us at 1 Gb/s

class RateControlTest : public testing::Test {
 protected:
  // Sends as fast as allowed for `length`, with a known round trip. `notified_every` 0: never.
  void send_for(Duration length, Duration notified_every = 0) {
    Time next_notice = notified_every == 0 ? kNever : now_ + notified_every;
    for (const Time end = now_ + length; now_ < end; now_ += kMicrosecond) {
      if (now_ >= next_notice) {
        rate_.on_cnp(now_, sent_);
        next_notice += notified_every;
      }
      if (!rate_.limited()) {
        send(kFrame / 10);  // 1 Gb/s
      } else if (rate_.allowance(now_) > 0) {
        send(kFrame);
      }
    }
  }
  void send(std::uint32_t bytes) {
    sent_ += bytes;
    if (rate_.limited()) {
      rate_.sent(bytes, 1);
    }
  }
  void given_a_round_trip() {
    now_ += kRoundTrip;
    rate_.on_round_trip(kRoundTrip, now_, sent_);
  }
  // Limited to half of the 1 Gb/s that it had.
  void given_a_limit() {
    given_a_round_trip();
    send_for(kNanosecondsPerMillisecond);
    rate_.on_cnp(now_, sent_);
    send_for(kRoundTrip);
    rate_.on_cnp(now_, sent_);
  }

  CongestionSettings settings_;
  RateControl rate_{settings_};
  Time now_ = kNanosecondsPerSecond;
  std::uint64_t sent_ = 0;
};

TEST_F(RateControlTest, IsUnlimitedUntilItIsNotified) {
  send_for(kNanosecondsPerMillisecond);
  EXPECT_FALSE(rate_.limited());
  EXPECT_EQ(rate_.rate_mbps(), 0);
}

TEST_F(RateControlTest, MeasuresARoundTripAndCutsWhatItFound) {
  given_a_round_trip();
  send_for(kNanosecondsPerMillisecond);
  rate_.on_cnp(now_, sent_);
  EXPECT_TRUE(rate_.measuring(now_));
  EXPECT_FALSE(rate_.limited());
  send_for(kRoundTrip);
  rate_.on_cnp(now_, sent_);
  ASSERT_TRUE(rate_.limited());
  // Half of a window of 12,500 bytes, and up to a fifth above it.
  EXPECT_NEAR(rate_.window(), 6'250, 100);
  EXPECT_NEAR(rate_.rate_mbps(), 600, 10);
}

TEST_F(RateControlTest, ANotificationAloneIsForgotten) {
  given_a_round_trip();
  rate_.on_cnp(now_, sent_);
  now_ += 100 * kNanosecondsPerMillisecond;
  EXPECT_FALSE(rate_.measuring(now_));
  rate_.on_cnp(now_, sent_);
  EXPECT_FALSE(rate_.limited()) << "the measurement starts anew";
}

TEST_F(RateControlTest, PacesToItsRate) {
  given_a_limit();
  const std::uint64_t before = sent_;
  send_for(kRoundTrip / 2);
  EXPECT_NEAR(static_cast<double>(sent_ - before), 600e6 * 50e-6 / 8, 2 * kFrame);
  while (rate_.allowance(now_) > 0) {
    send(kFrame);
  }
  EXPECT_GT(rate_.due(), now_);
  EXPECT_LT(rate_.due(), now_ + 3 * 10 * kMicrosecond);
}

TEST_F(RateControlTest, SlowsDownWhileNotified) {
  given_a_limit();
  send_for(5 * kNanosecondsPerMillisecond, 50 * kMicrosecond);
  EXPECT_LE(rate_.window(), 4'096 + 2'048) << "the smallest window, and one increase";
}

TEST_F(RateControlTest, RecoversWithoutNotifications) {
  given_a_limit();
  send_for(100 * kNanosecondsPerMillisecond);
  EXPECT_GT(rate_.rate_mbps(), 1'000);
  send_for(2 * kNanosecondsPerSecond);
  EXPECT_FALSE(rate_.limited()) << "forgotten after a second";
}

// There is no timer for a queue pair that sends nothing, so its limit stays until it sends.
TEST_F(RateControlTest, AQueryDoesNotShowAnExpiredLimit) {
  given_a_limit();
  EXPECT_EQ(rate_.rate_mbps_at(now_), rate_.rate_mbps());
  EXPECT_EQ(rate_.rate_mbps_at(now_ - 1), rate_.rate_mbps()) << "a clock reading from before";
  EXPECT_EQ(rate_.rate_mbps_at(now_ + 2 * kNanosecondsPerSecond), 0);
  EXPECT_TRUE(rate_.limited()) << "the query changes nothing";
}

TEST_F(RateControlTest, SeldomMarksCutLessThanFrequentOnes) {
  given_a_limit();
  send_for(20 * kNanosecondsPerMillisecond, kNanosecondsPerMillisecond);
  const double seldom = rate_.rate_mbps();
  send_for(20 * kNanosecondsPerMillisecond, 60 * kMicrosecond);
  EXPECT_GT(seldom, 2 * rate_.rate_mbps());
}

TEST_F(RateControlTest, AnUnusedRateIsNotRaised) {
  given_a_limit();
  const double before = rate_.rate_mbps();
  for (int i = 0; i < 100; ++i) {  // one frame per millisecond
    now_ += kNanosecondsPerMillisecond;
    ASSERT_GT(rate_.allowance(now_), 0U);
    send(64);
  }
  EXPECT_EQ(rate_.rate_mbps(), before);
}

TEST_F(RateControlTest, ALongRoundTripCountsAsANotificationInDelayMode) {
  for (const CongestionMode mode : {CongestionMode::kDcqcn, CongestionMode::kDelay}) {
    settings_.mode = mode;
    rate_.forget();
    given_a_round_trip();
    send_for(kNanosecondsPerMillisecond);
    for (int i = 0; i < 2; ++i) {
      send_for(kNanosecondsPerMillisecond);
      rate_.on_round_trip(kNanosecondsPerMillisecond, now_, sent_);
    }
    EXPECT_EQ(rate_.limited(), mode == CongestionMode::kDelay);
  }
  const std::uint32_t before = rate_.window();
  send_for(400 * kMicrosecond);
  rate_.on_round_trip(400 * kMicrosecond, now_, sent_);
  EXPECT_GE(rate_.window(), before) << "not longer than allowed";
}

}  // namespace
}  // namespace uroce
