#include "control/sessions/handle_table.h"

#include <gtest/gtest.h>

namespace uroce::control {
namespace {

TEST(HandleTable, FindsWhatWasAddedAndNothingElse) {
  HandleTable<int> table;
  const std::uint32_t a = table.add(std::make_unique<int>(1));
  const std::uint32_t b = table.add(std::make_unique<int>(2));
  EXPECT_EQ(*table.find(a), 1);
  EXPECT_EQ(*table.find(b), 2);
  EXPECT_EQ(table.find(b + 1), nullptr);
  EXPECT_EQ(table.find(0xFFFFFFFF), nullptr);
  EXPECT_EQ(*table.remove(a), 1);
  EXPECT_EQ(table.find(a), nullptr);
  EXPECT_EQ(table.count(), 1U);
}

TEST(HandleTable, AStaleHandleIsNotReusedAtOnce) {
  HandleTable<int> table;
  const std::uint32_t stale = table.add(std::make_unique<int>(1));
  table.remove(stale);
  for (int i = 0; i < 16; ++i) {
    const std::uint32_t handle = table.add(std::make_unique<int>(2));
    EXPECT_NE(handle, stale);
    table.remove(handle);
  }
}

TEST(HandleTable, ReusesHandlesInTheLongRun) {
  HandleTable<int> table;
  std::uint32_t largest = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::uint32_t handle = table.add(std::make_unique<int>(i));
    largest = std::max(largest, handle);
    table.remove(handle);
  }
  EXPECT_LT(largest, 32U);
}

TEST(HandleTable, AVisitMayRemove) {
  HandleTable<int> table;
  for (int i = 0; i < 5; ++i) {
    table.add(std::make_unique<int>(i));
  }
  table.for_each([&](std::uint32_t handle, int&) { table.remove(handle); });
  EXPECT_EQ(table.count(), 0U);
}

}  // namespace
}  // namespace uroce::control
