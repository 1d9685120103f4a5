#include "control/sessions/numbers.h"

#include <gtest/gtest.h>

#include <set>

#include "control/sessions/card_limits.h"

namespace uroce::control {
namespace {

TEST(Numbers, AreUniqueInTheirLow16BitsAmongTheLiving) {
  Numbers numbers(kQpnMin, kQpsMax, 3);
  std::set<std::uint32_t> low;
  for (std::uint32_t i = 0; i < kQpsMax; ++i) {
    const std::uint32_t number = numbers.take({});
    ASSERT_NE(number, 0U);
    EXPECT_LT(number, 0xFF'FFFFU);
    EXPECT_GE(number & 0xFFFFU, kQpnMin);
    EXPECT_TRUE(low.insert(number & 0xFFFFU).second);
  }
  EXPECT_EQ(numbers.take({}), 0U) << "all are taken";
}

TEST(Numbers, AreNotReusedSoon) {
  Numbers numbers(kQpnMin, kQpsMax, 3);
  std::set<std::uint32_t> seen;
  for (int i = 0; i < 100'000; ++i) {
    const std::uint32_t number = numbers.take({});
    EXPECT_TRUE(seen.insert(number).second);
    numbers.release(number);
  }
}

TEST(Numbers, FindTheOwnerOfTheWholeNumberOnly) {
  Numbers numbers(1, 10, 3);
  const std::uint32_t number = numbers.take({nullptr, 5});
  ASSERT_NE(numbers.find(number), nullptr);
  EXPECT_EQ(numbers.find(number)->handle, 5U);
  EXPECT_EQ(numbers.find(number ^ 0x1'0000U), nullptr);
  numbers.set_owner(number, {nullptr, 6});
  EXPECT_EQ(numbers.find(number)->handle, 6U);
  numbers.release(number);
  EXPECT_EQ(numbers.find(number), nullptr);
}

TEST(Numbers, MayBeChosen) {
  Numbers numbers(16, 10, 3);
  EXPECT_EQ(numbers.take({}, 0x12'0040), 0x12'0040U);
  EXPECT_EQ(numbers.take({}, 0x12'0040), 0U) << "taken";
  EXPECT_EQ(numbers.take({}, 0x13'0040), 0U) << "its low 16 bits are taken";
  EXPECT_EQ(numbers.take({}, 15), 0U) << "below the first";
  EXPECT_EQ(numbers.take({}, 0x100'0040), 0U) << "more than 24 bits";
  numbers.release(0x12'0040);
  EXPECT_EQ(numbers.take({}, 0x13'0040), 0x13'0040U);
}

}  // namespace
}  // namespace uroce::control
