#include "dataplane/port/faults/bottleneck.h"

#include <gtest/gtest.h>

namespace uroce {
namespace {

constexpr std::uint64_t kRate = 8'000'000'000;  // one byte per nanosecond
constexpr std::uint32_t kFrame = 1'000;
constexpr BottleneckConfig kMarking{
    .rate = kRate, .queue = 400'000, .kmin = 100'000, .kmax = 300'000, .pmax = 0.2};

// Fills the queue until `bytes` wait in it.
void fill(Bottleneck& bottleneck, std::uint64_t bytes) {
  while (bottleneck.backlog(0) < bytes) {
    (void)bottleneck.admit(kFrame, false, 0, 0);
  }
}

TEST(Bottleneck, FramesLeaveAtItsRate) {
  Bottleneck bottleneck({.rate = kRate, .queue = 10'000});
  EXPECT_EQ(bottleneck.admit(kFrame, true, 0, 500).departs, 1'500U);
  EXPECT_EQ(bottleneck.admit(kFrame, true, 0, 500).departs, 2'500U) << "after the first";
  EXPECT_EQ(bottleneck.backlog(1'000), 1'500U);
  EXPECT_EQ(bottleneck.backlog(2'500), 0U);
  EXPECT_EQ(bottleneck.admit(kFrame, true, 0, 9'000).departs, 10'000U) << "idle meanwhile";
}

TEST(Bottleneck, SmallFramesOnAFastLinkAreNotRoundedUp) {
  Bottleneck bottleneck({.rate = 100'000'000'000, .queue = 1'000'000});
  Time departs = 0;
  for (int i = 0; i < 1'000; ++i) {
    departs = bottleneck.admit(64, true, 0, 0).departs;
  }
  EXPECT_NEAR(static_cast<double>(departs), 5'120, 60);
}

TEST(Bottleneck, AFullQueueDrops) {
  Bottleneck bottleneck({.rate = kRate, .queue = 3 * kFrame});
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(bottleneck.admit(kFrame, true, 0, 0).dropped);
  }
  EXPECT_TRUE(bottleneck.admit(kFrame, true, 0, 0).dropped);
  EXPECT_FALSE(bottleneck.admit(kFrame, true, 0, kFrame).dropped) << "one has left";
}

TEST(Bottleneck, MarksMoreAndMoreBetweenKminAndKmax) {
  Bottleneck bottleneck(kMarking);
  fill(bottleneck, 98'000);
  EXPECT_FALSE(bottleneck.admit(kFrame, true, 0, 0).marked) << "not up to kmin";
  fill(bottleneck, 199'000);
  EXPECT_TRUE(bottleneck.admit(kFrame, true, 0.09, 0).marked) << "halfway: pmax / 2";
  EXPECT_FALSE(bottleneck.admit(kFrame, true, 0.11, 0).marked);
  fill(bottleneck, 300'000);
  EXPECT_TRUE(bottleneck.admit(kFrame, true, 0.99, 0).marked) << "beyond kmax: every frame";
  EXPECT_FALSE(bottleneck.admit(kFrame, false, 0.99, 0).marked) << "it isn't ECN-capable";
}

}  // namespace
}  // namespace uroce
