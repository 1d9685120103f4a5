#include "base/time/line_throttle.h"

#include <gtest/gtest.h>

namespace uroce {
namespace {

TEST(LineThrottle, ALineIsDueAtOnceAndAgainAfterASilence) {
  constexpr Time kStart = 5;
  LineThrottle lines;
  EXPECT_TRUE(lines.is_due(kStart));
  EXPECT_FALSE(lines.is_due(kStart));
  EXPECT_FALSE(lines.is_due(kStart + LineThrottle::kSilence - 1));
  EXPECT_TRUE(lines.is_due(kStart + LineThrottle::kSilence));
  EXPECT_FALSE(lines.is_due(kStart + LineThrottle::kSilence + 1));
}

}  // namespace
}  // namespace uroce
