#include "control/sessions/number_pool.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

#include "control/sessions/card_limits.h"

namespace uroce::control {
namespace {

TEST(NumberPool, AreUniqueInTheirLow16BitsAmongTheLiving) {
  NumberPool numbers(kQpnMin, kQpsMax, 3);
  std::set<std::uint32_t> low;
  std::vector<PooledNumber<NumberPool>> taken;
  for (std::uint32_t i = 0; i < kQpsMax; ++i) {
    taken.push_back(numbers.take({}));
    ASSERT_TRUE(taken.back());
    const std::uint32_t number = taken.back().number();
    EXPECT_LT(number, 0xFF'FFFFU);
    EXPECT_GE(number & 0xFFFFU, kQpnMin);
    EXPECT_TRUE(low.insert(number & 0xFFFFU).second);
  }
  EXPECT_FALSE(numbers.take({})) << "all are taken";
}

TEST(NumberPool, AreNotReusedSoon) {
  NumberPool numbers(kQpnMin, kQpsMax, 3);
  std::set<std::uint32_t> seen;
  for (int i = 0; i < 100'000; ++i) {
    EXPECT_TRUE(seen.insert(numbers.take({}).number()).second);
  }
}

TEST(NumberPool, FindTheOwnerOfTheWholeNumberOnly) {
  NumberPool numbers(1, 10, 3);
  PooledNumber<NumberPool> pooled = numbers.take({nullptr, 5});
  const std::uint32_t number = pooled.number();
  ASSERT_NE(numbers.find(number), nullptr);
  EXPECT_EQ(numbers.find(number)->handle, 5U);
  EXPECT_EQ(numbers.find(number ^ 0x1'0000U), nullptr);
  numbers.set_owner(number, {nullptr, 6});
  EXPECT_EQ(numbers.find(number)->handle, 6U);
  pooled = {};
  EXPECT_EQ(numbers.find(number), nullptr);
}

TEST(NumberPool, MayBeChosen) {
  NumberPool numbers(16, 10, 3);
  {
    const PooledNumber<NumberPool> held = numbers.take({}, 0x12'0040);
    EXPECT_EQ(held.number(), 0x12'0040U);
    EXPECT_FALSE(numbers.take({}, 0x12'0040)) << "taken";
    EXPECT_FALSE(numbers.take({}, 0x13'0040)) << "its low 16 bits are taken";
    EXPECT_FALSE(numbers.take({}, 15)) << "below the first";
    EXPECT_FALSE(numbers.take({}, 0x100'0040)) << "more than 24 bits";
  }
  EXPECT_EQ(numbers.take({}, 0x13'0040).number(), 0x13'0040U);
}

TEST(NumberPool, MoveWithTheirLease) {
  NumberPool numbers(16, 10, 3);
  PooledNumber<NumberPool> first = numbers.take({}, 0x20);
  PooledNumber<NumberPool> second = std::move(first);
  first = numbers.take({}, 0x21);
  EXPECT_EQ(numbers.count(), 2U);
  second = std::move(first);
  EXPECT_EQ(second.number(), 0x21U);
  first = {};
  EXPECT_EQ(numbers.count(), 1U) << "the number held before the move was returned";
}

}  // namespace
}  // namespace uroce::control
