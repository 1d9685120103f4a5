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
  window.acknowledged(32);
  EXPECT_EQ(window.packets(), 64U);
  window.acknowledged(1'000);
  EXPECT_EQ(window.packets(), 512U);
}

TEST(SendWindow, ABoundWindowDoesNotGrow) {
  SendWindow window;
  window.configure(512, kMtuShift, true);
  window.halve();
  EXPECT_EQ(window.packets(), 16U);
  window.bound(0);
  EXPECT_EQ(window.packets(), 1U) << "never 0, or the connection would be stuck";
  window.acknowledged(1);
  EXPECT_EQ(window.packets(), 1U);
  window.bound(1'000);
  EXPECT_EQ(window.packets(), 512U);
  window.bound(100);
  window.release();
  window.acknowledged(100);
  EXPECT_EQ(window.packets(), 200U);
}

TEST(SendWindow, GrowsSlowlyAfterHeavyLoss) {
  SendWindow window;
  window.configure(512, kMtuShift, true);
  window.acknowledged(1'000);
  window.lost();
  EXPECT_EQ(window.packets(), 256U);
  window.acknowledged(256);
  EXPECT_EQ(window.packets(), 256U + 256U / SendWindow::kSlowly);
  for (int i = 0; i < 12; ++i) {
    window.lost();
  }
  EXPECT_EQ(window.packets(), 1U) << "never 0, or the connection would be stuck";
  for (std::uint32_t i = 0; i < SendWindow::kSlowly; ++i) {
    EXPECT_EQ(window.packets(), 1U);
    window.acknowledged(1);
  }
  EXPECT_EQ(window.packets(), 2U);
}

TEST(SendWindow, LossDoesNotShrinkABoundWindow) {
  SendWindow window;
  window.configure(512, kMtuShift, true);
  window.bound(32);
  window.lost();
  EXPECT_EQ(window.packets(), 32U);
  window.release();
  window.acknowledged(32);
  EXPECT_EQ(window.packets(), 64U) << "slow start continues";
}

TEST(SendWindow, ANewConnectionForgetsLosses) {
  SendWindow window;
  window.configure(512, kMtuShift, true);
  window.lost();
  window.configure(512, kMtuShift, true);
  window.acknowledged(32);
  EXPECT_EQ(window.packets(), 64U);
}

// A queue pair that was reset while congestion control limited its window.
TEST(SendWindow, ANewConnectionForgetsTheBound) {
  SendWindow window;
  window.configure(512, kMtuShift, true);
  window.bound(8);
  window.configure(512, kMtuShift, true);
  window.acknowledged(32);
  EXPECT_EQ(window.packets(), 64U);
}

}  // namespace
}  // namespace uroce
