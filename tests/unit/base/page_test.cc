#include "base/page.h"

#include <gtest/gtest.h>

#include <limits>

namespace uroce {
namespace {

TEST(Page, IsWhole) {
  EXPECT_EQ(page_ceil(0), 0U);
  EXPECT_EQ(page_ceil(1), kPage);
  EXPECT_EQ(page_ceil(kPage), kPage);
  EXPECT_EQ(page_ceil(kPage + 1), 2 * kPage);
  EXPECT_EQ(page_ceil(std::numeric_limits<std::uint64_t>::max()), 0U);
  EXPECT_EQ(page_floor(kPage - 1), 0U);
  EXPECT_EQ(page_floor(2 * kPage + 1), 2 * kPage);
}

TEST(Page, RangesTouchWholePages) {
  EXPECT_EQ(bytes_of_pages(kPage, kPage), kPage);
  EXPECT_EQ(bytes_of_pages(kPage - 1, 2), 2 * kPage);
  EXPECT_EQ(bytes_of_pages(kPage, 0), 0U);
}

TEST(Align, AnyUnit) {
  EXPECT_EQ(align_floor(29, 10), 20U);
  EXPECT_EQ(align_ceil(21, 10), 30U);
  EXPECT_EQ(align_ceil(30, 10), 30U);
}

}  // namespace
}  // namespace uroce
