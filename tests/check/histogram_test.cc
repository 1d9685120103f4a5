#include "apps/check/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace uroce::check {
namespace {

TEST(Histogram, IsEmptyAtFirst) {
  const Histogram histogram;
  EXPECT_EQ(histogram.count(), 0U);
  EXPECT_EQ(histogram.percentile(0.5), 0U);
  EXPECT_EQ(histogram.max(), 0U);
}

TEST(Histogram, SmallValuesAreExact) {
  Histogram histogram;
  for (Duration value = 1; value <= 10; ++value) {
    histogram.add(value);
  }
  EXPECT_EQ(histogram.percentile(0.5), 5U);
  EXPECT_EQ(histogram.percentile(0.9), 9U);
  EXPECT_EQ(histogram.percentile(1), 10U);
  EXPECT_EQ(histogram.sum(), 55U);
}

TEST(Histogram, PercentilesAreOffByASixteenthAtMost) {
  std::mt19937_64 random(5);
  Histogram histogram;
  std::vector<Duration> values;
  for (int i = 0; i < 10'000; ++i) {
    values.push_back(random() >> (24 + random() % 36));
    histogram.add(values.back());
  }
  std::sort(values.begin(), values.end());
  for (const double part : {0.01, 0.1, 0.5, 0.9, 0.99, 0.999}) {
    const auto exact = values[static_cast<std::size_t>(part * 10'000) - 1];
    EXPECT_GE(histogram.percentile(part), exact);
    EXPECT_LE(histogram.percentile(part), exact + exact / 16 + 1);
  }
}

TEST(Histogram, TooLongTimesCountAsTheLongest) {
  Histogram histogram;
  histogram.add(~Duration{0});
  EXPECT_EQ(histogram.count(), 1U);
  EXPECT_GT(histogram.percentile(0.5), Duration{1} << 43U);
}

}  // namespace
}  // namespace uroce::check
