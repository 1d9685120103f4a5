#include "dataplane/qp/congestion/send_window.h"

#include <gtest/gtest.h>

namespace uroce {
namespace {

constexpr std::uint32_t kMtuShift = 10;

TEST(SendWindow, IsFullyOpenOnAnUnsharedNetwork) {
  SendWindow window;
  window.configure(512, kMtuShift, false);
  EXPECT_EQ(window.packets(), 512U);
}

TEST(SendWindow, BeginsSmallAndDoublesWithEachRoundTrip) {
  SendWindow window;
  window.configure(512, kMtuShift, true);
  EXPECT_EQ(window.packets(), 32U);
  window.on_acknowledged(32);
  EXPECT_EQ(window.packets(), 64U);
  window.on_acknowledged(1'000);
  EXPECT_EQ(window.packets(), 512U);
}

TEST(SendWindow, IsOnePacketAfterRepeatedTimeoutsAndDoubles) {
  SendWindow window;
  window.configure(512, kMtuShift, false);
  window.on_repeated_timeout();
  EXPECT_EQ(window.packets(), 1U);
  window.on_acknowledged(1);
  window.on_acknowledged(2);
  EXPECT_EQ(window.packets(), 4U);
  window.limit(100);
  window.on_repeated_timeout();
  EXPECT_EQ(window.packets(), 100U) << "congestion control's";
}

TEST(SendWindow, ALimitedWindowDoesNotGrow) {
  SendWindow window;
  window.configure(512, kMtuShift, true);
  window.halve();
  EXPECT_EQ(window.packets(), 16U);
  window.limit(0);
  EXPECT_EQ(window.packets(), 1U) << "never 0, or the connection would be stuck";
  window.on_acknowledged(1);
  EXPECT_EQ(window.packets(), 1U);
  window.limit(1'000);
  EXPECT_EQ(window.packets(), 512U);
  window.limit(100);
  window.remove_limit();
  window.on_acknowledged(100);
  EXPECT_EQ(window.packets(), 200U);
}

TEST(SendWindow, GrowsSlowlyAfterHeavyLoss) {
  SendWindow window;
  window.configure(512, kMtuShift, true);
  window.on_acknowledged(1'000);
  window.on_loss();
  EXPECT_EQ(window.packets(), 256U);
  window.on_acknowledged(256);
  EXPECT_EQ(window.packets(), 256U + 256U / SendWindow::kAvoidanceDivisor);
  for (int i = 0; i < 12; ++i) {
    window.on_loss();
  }
  EXPECT_EQ(window.packets(), 1U) << "never 0, or the connection would be stuck";
  window.on_acknowledged(1);
  for (std::uint32_t i = 0; i < SendWindow::kAvoidanceDivisor; ++i) {
    EXPECT_EQ(window.packets(), 2U);
    window.on_acknowledged(1);
  }
  EXPECT_EQ(window.packets(), 3U);
}

TEST(SendWindow, LossDoesNotShrinkALimitedWindow) {
  SendWindow window;
  window.configure(512, kMtuShift, true);
  window.limit(32);
  window.on_loss();
  EXPECT_EQ(window.packets(), 32U);
  window.remove_limit();
  window.on_acknowledged(32);
  EXPECT_EQ(window.packets(), 64U) << "slow start continues";
}

TEST(SendWindow, ANewConnectionForgetsLosses) {
  SendWindow window;
  window.configure(512, kMtuShift, true);
  window.on_loss();
  window.configure(512, kMtuShift, true);
  window.on_acknowledged(32);
  EXPECT_EQ(window.packets(), 64U);
}

// A queue pair that was reset while congestion control limited its window.
TEST(SendWindow, ANewConnectionForgetsTheLimit) {
  SendWindow window;
  window.configure(512, kMtuShift, true);
  window.limit(8);
  window.configure(512, kMtuShift, true);
  window.on_acknowledged(32);
  EXPECT_EQ(window.packets(), 64U);
}

}  // namespace
}  // namespace uroce
