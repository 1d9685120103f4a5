#include "base/late_numbers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <random>
#include <set>
#include <vector>

namespace uroce {
namespace {

constexpr std::uint32_t kQuarantine = LateNumbers::kQuarantine;

TEST(LateNumbers, CountFromZero) {
  LateNumbers numbers;
  EXPECT_EQ(numbers.end(), 0U);
  for (std::uint32_t number = 0; number < 100; ++number) {
    EXPECT_EQ(numbers.take(), number);
  }
  EXPECT_EQ(numbers.end(), 100U);
  EXPECT_FALSE(numbers.empty());
}

TEST(LateNumbers, AreReusedInTheOrderInWhichTheyWereGivenBackAndNotWhileFewAreFree) {
  LateNumbers numbers;
  const std::uint32_t count = kQuarantine + 4;
  for (std::uint32_t i = 0; i < count; ++i) {
    (void)numbers.take();
  }
  for (std::uint32_t number = count; number-- > count - kQuarantine;) {
    numbers.give_back(number);
  }
  EXPECT_EQ(numbers.take(), count) << "as many as are kept are free";
  numbers.give_back(0);
  EXPECT_EQ(numbers.take(), count - 1) << "the first that was given back";
  EXPECT_EQ(numbers.take(), count + 1);
  numbers.give_back(1);
  EXPECT_EQ(numbers.take(), count - 2);
}

TEST(LateNumbers, OfALimitedSetAreReusedAtOnceWhenAllAreKnown) {
  LateNumbers numbers(3);
  EXPECT_EQ(numbers.take(), 0U);
  EXPECT_EQ(numbers.take(), 1U);
  numbers.give_back(0);
  EXPECT_EQ(numbers.take(), 2U) << "this one wasn't used yet";
  EXPECT_FALSE(numbers.empty());
  EXPECT_EQ(numbers.take(), 0U);
  EXPECT_TRUE(numbers.empty());
  numbers.give_back(1);
  EXPECT_FALSE(numbers.empty());
  EXPECT_EQ(numbers.take(), 1U);
  EXPECT_EQ(numbers.end(), 3U);
}

TEST(LateNumbers, HaveRoomForTheNextAfterItWasMade) {
  LateNumbers numbers;
  for (int i = 0; i < 1'000; ++i) {
    numbers.make_room();
    const std::size_t capacity = numbers.capacity();
    EXPECT_LT(numbers.end(), capacity);
    (void)numbers.take();
    EXPECT_EQ(numbers.capacity(), capacity);
  }
}

// Against a list of the free ones.
TEST(LateNumbers, AreNeverTwiceTaken) {
  constexpr std::uint32_t kMax = 64;
  std::mt19937 random(1);
  for (const std::uint32_t count_max : {kMax, 1'000'000U}) {
    LateNumbers numbers(count_max);
    std::vector<std::uint32_t> taken;
    std::deque<std::uint32_t> free;
    std::uint32_t end = 0;
    for (int step = 0; step < 20'000; ++step) {
      if (!numbers.empty() && taken.size() < kMax && random() % 2 == 0) {
        const bool reuses = free.size() > kQuarantine || end == count_max;
        const std::uint32_t expected = reuses ? free.front() : end++;
        if (reuses) {
          free.pop_front();
        }
        ASSERT_EQ(numbers.take(), expected);
        taken.push_back(expected);
      } else if (!taken.empty()) {
        std::swap(taken[random() % taken.size()], taken.back());
        free.push_back(taken.back());
        numbers.give_back(taken.back());
        taken.pop_back();
      }
      ASSERT_EQ(numbers.end(), end);
      ASSERT_EQ(numbers.empty(), free.empty() && end == count_max);
    }
    EXPECT_EQ(std::set(taken.begin(), taken.end()).size(), taken.size());
  }
}

}  // namespace
}  // namespace uroce
