#include "base/memory/growing_array.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <new>
#include <numeric>
#include <span>
#include <utility>

namespace uroce {
namespace {

// There is memory for so many of them.
struct Rare {
  static inline std::size_t left = 0;
  static void* operator new[](std::size_t bytes, const std::nothrow_t& nothrow) noexcept {
    return bytes / sizeof(Rare) <= left ? ::operator new[](bytes, nothrow) : nullptr;
  }
  static void operator delete[](void* memory) { ::operator delete[](memory); }

  int number = 0;
};

TEST(GrowingArray, KeepsWhatIsAddedInOrder) {
  GrowingArray<int> array;
  EXPECT_TRUE(array.empty());
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(array.add(i));
  }
  EXPECT_EQ(array.size(), 100U);
  EXPECT_EQ(array.front(), 0);
  EXPECT_EQ(array.back(), 99);
  EXPECT_EQ(std::accumulate(array.begin(), array.end(), 0), 4950);
  array.cut(3);
  EXPECT_EQ(std::span<const int>(array).size(), 3U);
  ASSERT_TRUE(array.add(7));
  EXPECT_EQ(array[2], 2);
  EXPECT_EQ(array[3], 7);
}

TEST(GrowingArray, IsMovedWithItsItems) {
  GrowingArray<std::unique_ptr<int>> array;
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(array.add(std::make_unique<int>(i)));
  }
  GrowingArray<std::unique_ptr<int>> other = std::move(array);
  EXPECT_TRUE(array.empty());  // NOLINT(bugprone-use-after-move): it is usable, and empty
  ASSERT_TRUE(array.add(nullptr));
  EXPECT_EQ(*other.back(), 19);
  array = std::move(other);
  EXPECT_EQ(array.size(), 20U);
  EXPECT_EQ(*array.front(), 0);
}

TEST(GrowingArray, SaysThatThereIsNoMemory) {
  Rare::left = 20;
  GrowingArray<Rare> array;
  int added = 0;
  while (array.add({.number = added})) {
    ++added;
  }
  EXPECT_GT(added, 0);
  EXPECT_LE(added, 20);
  EXPECT_FALSE(array.add({.number = 0})) << "there still is none";
  EXPECT_EQ(array.size(), static_cast<std::size_t>(added));
  EXPECT_EQ(array.back().number, added - 1);
}

}  // namespace
}  // namespace uroce
