#include "dataplane/engine/bells.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace uroce {
namespace {

class BellsTest : public testing::Test {
 protected:
  std::vector<std::uint32_t> take(std::uint32_t max) {
    std::vector<std::uint32_t> slots(max);
    slots.resize(take_bells(*bells_, slots.data(), max));
    return slots;
  }
  std::unique_ptr<abi::Doorbells> bells_ = std::make_unique<abi::Doorbells>();
};

TEST_F(BellsTest, TakesWhatRangOnce) {
  for (const std::uint32_t slot : {0U, 63U, 64U, 4'096U, abi::kDoorbellSlots - 1}) {
    abi::ring(*bells_, slot);
    abi::ring(*bells_, slot);
  }
  EXPECT_TRUE(any_bells(*bells_));
  EXPECT_EQ(take(16), (std::vector<std::uint32_t>{0, 63, 64, 4'096, abi::kDoorbellSlots - 1}));
  EXPECT_FALSE(any_bells(*bells_));
  EXPECT_TRUE(take(16).empty());
}

TEST_F(BellsTest, WhatIsBeyondTheBoundStaysRung) {
  std::set<std::uint32_t> rung;
  for (std::uint32_t slot = 0; slot < abi::kDoorbellSlots; slot += 61) {
    abi::ring(*bells_, slot);
    rung.insert(slot);
  }
  std::set<std::uint32_t> taken;
  while (any_bells(*bells_)) {
    const auto some = take(7);
    ASSERT_FALSE(some.empty());
    ASSERT_LE(some.size(), 7U);
    for (const std::uint32_t slot : some) {
      EXPECT_TRUE(taken.insert(slot).second);
    }
  }
  EXPECT_EQ(taken, rung);
}

TEST_F(BellsTest, AScribblingProgramYieldsNoSlotOutOfRange) {
  bells_->top = ~0ULL;
  for (auto& group : bells_->groups) {
    group = ~0ULL;
  }
  bells_->words[5] = 1;
  const auto slots = take(256);
  EXPECT_EQ(slots, std::vector<std::uint32_t>{5 * 64});
}

// Each slot carries a counter that the ringers raise before they ring, as a program's rings do.
// Whatever was raised must be seen in the end, also by a ringer that found the bits above its own
// set already, by itself or the other one.
TEST_F(BellsTest, NoRingIsLostBetweenThreads) {
  constexpr std::uint32_t kSlots = 130;
  constexpr std::uint32_t kRings = 100'000;
  constexpr std::uint32_t kApart = 31;
  std::vector<std::atomic<std::uint32_t>> posted(kSlots);
  std::vector<std::uint32_t> seen(kSlots);
  std::atomic<int> ringing{2};
  const auto ring = [&](std::uint32_t step) {
    for (std::uint32_t i = 0; i < kRings; ++i) {
      const std::uint32_t slot = i * step % kSlots;
      posted[slot].fetch_add(1, std::memory_order_relaxed);
      abi::ring(*bells_, slot * kApart);
    }
    ringing.fetch_sub(1, std::memory_order_release);
  };
  std::thread one(ring, 7), other(ring, 3);
  for (bool last = false; !last;) {
    last = ringing.load(std::memory_order_acquire) == 0 && !any_bells(*bells_);
    for (const std::uint32_t slot : take(16)) {
      seen[slot / kApart] = posted[slot / kApart].load(std::memory_order_relaxed);
    }
  }
  one.join();
  other.join();
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    EXPECT_EQ(seen[slot], posted[slot].load()) << slot;
  }
}

}  // namespace
}  // namespace uroce
