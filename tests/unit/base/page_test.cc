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
}

}  // namespace
}  // namespace uroce
