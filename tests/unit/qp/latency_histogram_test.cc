// Known times yield known percentiles.

#include "dataplane/qp/latency/latency_histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tests/unit/qp/near_time.h"

namespace uroce::test {
namespace {

TEST(LatencyHistogram, PercentilesAreOffByAnEighthAtMost) {
  LatencyHistogram histogram;
  std::vector<Duration> values;
  std::mt19937_64 random(1);
  for (int i = 0; i < 10'000; ++i) {
    values.push_back(Duration{1} << (9 + random() % 20) | random() % 512);
    histogram.add(values.back());
  }
  std::sort(values.begin(), values.end());
  EXPECT_EQ(histogram.count(), values.size());
  EXPECT_EQ(histogram.max(), values.back());
  for (const unsigned permille : {500U, 990U, 999U}) {
    expect_near_time(histogram.percentile(permille), values[permille * values.size() / 1000 - 1]);
  }
}

TEST(LatencyHistogram, CountsValuesUpToABound) {
  LatencyHistogram histogram;
  for (unsigned power = LatencyHistogram::kPowerMin; power <= LatencyHistogram::kPowerMax;
       ++power) {
    const std::uint64_t before = histogram.count();
    histogram.add(Duration{1} << power);
    EXPECT_EQ(histogram.count_up_to(power), before + 1) << power;
    histogram.add((Duration{1} << power) + 1);
    EXPECT_EQ(histogram.count_up_to(power), before + 1) << power;
  }
}

TEST(LatencyHistogram, SubtractsAnEarlierHistogram) {
  LatencyHistogram before, now;
  for (int i = 0; i < 100; ++i) {
    before.add(1'000'000);
  }
  now = before;
  EXPECT_EQ(now.since(before).count(), 0U);
  EXPECT_EQ(now.since(before).percentile(990), now.max())
      << "without samples it is the maximum ever";
  for (int i = 0; i < 10; ++i) {
    now.add(2'000);
  }
  const LatencyHistogram added = now.since(before);
  EXPECT_EQ(added.count(), 10U);
  EXPECT_EQ(added.sum(), 20'000U);
  expect_near_time(added.percentile(990), 2'000);
}

// A sum may briefly lack a queue pair, which then reappears with all its samples.
TEST(LatencyHistogram, SamplesThatReappearAreNotNew) {
  LatencyHistogram whole, lacking;
  for (int i = 0; i < 100; ++i) {
    whole.add(1'000'000);
  }
  lacking.add(2'000);
  EXPECT_EQ(lacking.since(whole).count(), 1U) << "counts don't go below 0";
  EXPECT_EQ(lacking.since(whole).sum(), 0U);
  LatencyHistogram before = whole;
  before.keep_most(lacking);
  whole.add(2'000);
  EXPECT_EQ(whole.since(before).count(), 0U);
}

TEST(LatencyHistogram, NothingIsTooShortOrTooLong) {
  LatencyHistogram histogram;
  EXPECT_EQ(histogram.percentile(500), 0U);
  histogram.add(0);
  EXPECT_EQ(histogram.percentile(999), 0U) << "not above the maximum";
  histogram.add(UINT64_MAX);
  EXPECT_EQ(histogram.percentile(999), UINT64_MAX);
  EXPECT_EQ(histogram.count(), 2U);
  EXPECT_EQ(histogram.count_up_to(LatencyHistogram::kPowerMax), 1U);
}

}  // namespace
}  // namespace uroce::test
