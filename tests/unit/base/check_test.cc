// What a failed check prints before it ends the process.

#include "base/check.h"

#include <gtest/gtest.h>

namespace uroce {
namespace {

TEST(CheckDeathTest, NamesFileLineAndCondition) {
  EXPECT_DEATH(UROCE_CHECK(1 + 1 == 3),
               "^uroce: internal error at .*check_test.cc:[0-9]+: 1 \\+ 1 == 3\n");
}

TEST(CheckDeathTest, HasAPriorityInTheJournal) {
  EXPECT_DEATH(
      {
        lines_have_priority = true;
        UROCE_CHECK(1 + 1 == 3);
      },
      "^<2>uroce: internal error at ");
}

TEST(LinePrefix, IsNothingElsewhere) { EXPECT_STREQ(line_prefix(kCriticalLine), ""); }

}  // namespace
}  // namespace uroce
