#include "base/handle_table.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace uroce {
namespace {

TEST(HandleTable, FindsWhatWasAddedAndNothingElse) {
  HandleTable<int> table("number");
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

TEST(HandleTable, SaysWhatThereIsNot) {
  HandleTable<int> table("number");
  const std::uint32_t handle = table.add(std::make_unique<int>(7));
  EXPECT_EQ(**table.get(handle), 7);
  const auto none = table.get(handle + 5);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, EINVAL);
  EXPECT_EQ(none.error().message, "there is no number with handle 5 here");
}

TEST(HandleTable, AStaleHandleIsNotReusedAtOnce) {
  HandleTable<int> table("number");
  const std::uint32_t stale = table.add(std::make_unique<int>(1));
  table.remove(stale);
  for (int i = 0; i < 16; ++i) {
    const std::uint32_t handle = table.add(std::make_unique<int>(2));
    EXPECT_NE(handle, stale);
    table.remove(handle);
  }
}

TEST(HandleTable, ReusesHandlesInTheLongRun) {
  HandleTable<int> table("number");
  std::uint32_t largest = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::uint32_t handle = table.add(std::make_unique<int>(i));
    largest = std::max(largest, handle);
    table.remove(handle);
  }
  EXPECT_LT(largest, 32U);
}

TEST(HandleTable, AVisitMayRemove) {
  HandleTable<int> table("number");
  for (int i = 0; i < 5; ++i) {
    table.add(std::make_unique<int>(i));
  }
  table.for_each([&](std::uint32_t handle, int&) { table.remove(handle); });
  EXPECT_EQ(table.count(), 0U);
}

}  // namespace
}  // namespace uroce
