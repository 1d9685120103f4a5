#include "base/page.h"

#include <gtest/gtest.h>

#include <limits>

namespace uroce {
namespace {

TEST(Page, IsWhole) {
  EXPECT_EQ(up_to_page(0), 0U);
  EXPECT_EQ(up_to_page(1), kPage);
  EXPECT_EQ(up_to_page(kPage), kPage);
  EXPECT_EQ(up_to_page(kPage + 1), 2 * kPage);
  EXPECT_EQ(up_to_page(std::numeric_limits<std::uint64_t>::max()), 0U);
}

}  // namespace
}  // namespace uroce
