#include "apps/report/plot.h"

#include <gtest/gtest.h>

namespace uroce::report {
namespace {

TEST(Svg, DrawsEachLineAndNamesIt) {
  const Plot plot{.title = "A <title>",
                  .unit = "B/s",
                  .lines = {{.name = "x & y", .points = {{-2, 0}, {-1, 300}, {0, 100}}},
                            {.name = "z", .points = {}}},
                  .top = 0};
  const std::string text = svg(plot);
  EXPECT_NE(text.find("A &lt;title&gt;, B/s"), std::string::npos) << text;
  EXPECT_NE(text.find("x &amp; y <b>100</b>, at most 300"), std::string::npos) << text;
  // From the left end to the right, with the highest point at three quarters of an axis up to 400.
  EXPECT_NE(text.find("points=\"56.0,156.0 302.0,46.5 548.0,119.5 \""), std::string::npos) << text;
  EXPECT_FALSE(is_flat(plot));
}

TEST(Svg, HasGapsWhereDataIsMissing) {
  const Plot plot{
      .title = "gaps",
      .unit = "us",
      .lines = {{.name = "x",
                 .points = {{-4, 400}, {-3, 400}, {-2, kNothing}, {-1, 400}, {0, kNothing}}}},
      .top = 0};
  const std::string text = svg(plot);
  EXPECT_NE(text.find("points=\"56.0,10.0 179.0,10.0 \""), std::string::npos) << text;
  EXPECT_NE(text.find("points=\"425.0,10.0 425.0,10.0 \""), std::string::npos) << "a dot: " << text;
  EXPECT_NE(text.find("x <b>-</b>, at most 400"), std::string::npos) << text;
  EXPECT_EQ(text.find("nan"), std::string::npos) << text;
  EXPECT_TRUE(is_flat({.title = "", .unit = "", .lines = {{"x", {{0, kNothing}}}}, .top = 0}));
}

TEST(Svg, DrawsNoMoreLinesThanItCanTellApart) {
  Plot plot{.title = "many", .unit = "", .lines = {}, .top = 0};
  for (std::size_t i = 0; i < kLinesMax + 2; ++i) {
    plot.lines.push_back({.name = "line", .points = {{-1, 0}, {0, 0}}});
  }
  const std::string text = svg(plot);
  EXPECT_NE(text.find("and 2 more"), std::string::npos) << text;
  EXPECT_TRUE(is_flat(plot));
}

}  // namespace
}  // namespace uroce::report
