#include "mmu/faults/fault_statistics.h"

#include <gtest/gtest.h>

#include <thread>

namespace uroce::test {
namespace {

PageFault fault_of(std::uint32_t key) {
  PageFault fault;
  fault.request.key = key;
  return fault;
}

std::uint64_t sum_of(const std::map<std::uint32_t, FaultCounts>& regions) {
  std::uint64_t sum = 0;
  for (const auto& [key, counts] : regions) {
    sum += counts.resolved + counts.failed;
  }
  return sum;
}

TEST(FaultStatisticsTest, CountsByRegion) {
  FaultStatistics statistics;
  statistics.enter(fault_of(7));
  PageFault failed = fault_of(7);
  failed.outcome = Access::kUnmapped;
  statistics.enter(failed);
  statistics.enter(fault_of(9));
  const auto regions = statistics.by_region();
  ASSERT_EQ(regions.size(), 2U);
  EXPECT_EQ(regions.at(7).resolved, 1U);
  EXPECT_EQ(regions.at(7).failed, 1U);
  EXPECT_EQ(regions.at(9).resolved, 1U);
  statistics.forget(7);
  EXPECT_EQ(statistics.by_region().size(), 1U);
  EXPECT_EQ(sum_of({{0, statistics.all()}}), 3U);
}

TEST(FaultStatisticsTest, RegionsBeyondTheLimitAreCountedTogether) {
  FaultStatistics statistics;
  for (std::uint32_t key = 1; key <= FaultStatistics::kRegionsMax + 5; ++key) {
    statistics.enter(fault_of(key));
  }
  const auto regions = statistics.by_region();
  EXPECT_EQ(regions.size(), FaultStatistics::kRegionsMax + 1);
  EXPECT_EQ(regions.at(0).resolved, 5U);
  EXPECT_EQ(sum_of(regions), FaultStatistics::kRegionsMax + 5);
}

// The report is made in steps, between which regions come and go.
TEST(FaultStatisticsTest, AReportContainsTheRegionsThatStay) {
  constexpr std::uint32_t kStays = 2 * FaultStatistics::kStep;
  FaultStatistics statistics;
  for (std::uint32_t key = 1; key <= kStays; ++key) {
    statistics.enter(fault_of(2 * key));
  }
  std::atomic<bool> done{false};
  std::thread others([&] {
    for (std::uint32_t key = 1; !done; key = key % kStays + 1) {
      statistics.enter(fault_of(2 * key + 1));
      statistics.forget(2 * key + 1);
    }
  });
  for (int i = 0; i < 100; ++i) {
    const auto regions = statistics.by_region();
    for (std::uint32_t key = 1; key <= kStays; ++key) {
      ASSERT_TRUE(regions.contains(2 * key));
    }
  }
  done = true;
  others.join();
}

}  // namespace
}  // namespace uroce::test
