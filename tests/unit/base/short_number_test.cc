#include "base/short_number.h"

#include <gtest/gtest.h>

#include <limits>

namespace uroce {
namespace {

TEST(ShortNumber, HasThreeDigits) {
  EXPECT_EQ(short_number(0), "0");
  EXPECT_EQ(short_number(0.25), "0.25");
  EXPECT_EQ(short_number(12'345), "12.3k");
  EXPECT_EQ(short_number(-12'345), "-12.3k");
  EXPECT_EQ(short_number(4.56e9), "4.56G");
  EXPECT_EQ(short_number(2e15), "2000T");
  EXPECT_EQ(short_number(std::numeric_limits<double>::quiet_NaN()), "-");
}

TEST(ShortNumber, IsNeverAThousandOfAUnit) {
  EXPECT_EQ(short_number(99.94), "99.9");
  EXPECT_EQ(short_number(99.96), "100");
  EXPECT_EQ(short_number(999), "999");
  EXPECT_EQ(short_number(999.6), "1k");
  EXPECT_EQ(short_number(999'400), "999k");
  EXPECT_EQ(short_number(999'600), "1M");
}

TEST(ShortNumber, TimesHaveUnitsOfTheirOwn) {
  EXPECT_EQ(short_time(999), "999ns");
  EXPECT_EQ(short_time(1'500), "1.5us");
  EXPECT_EQ(short_time(7'200e9), "7200s");
}

}  // namespace
}  // namespace uroce
