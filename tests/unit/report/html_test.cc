#include "apps/report/html.h"

#include <gtest/gtest.h>

namespace uroce::report {
namespace {

using Json = nlohmann::ordered_json;

TEST(Escaped, NothingEndsTheSurroundingText) {
  EXPECT_EQ(escaped("<a href=\"x\">'&'</a>"),
            "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;");
  EXPECT_EQ(escaped("a\nb\tc"), "a\nb\tc");
  EXPECT_EQ(escaped(std::string_view("\x1b[2J\0", 5)), "\xEF\xBF\xBD[2J\xEF\xBF\xBD");
}

TEST(Plain, IsAlwaysUtf8) {
  EXPECT_EQ(plain(Json("x\xff")), "x\xEF\xBF\xBD");
  EXPECT_EQ(plain(Json(12)), "12");
  EXPECT_EQ(plain(Json()), "");
  EXPECT_EQ(plain(Json({{"a", "b"}}), "a"), "b");
  EXPECT_EQ(plain(Json(3), "a"), "");
}

TEST(Table, EscapesItsCellsAndItsHead) {
  const std::string text = table({"a_b", "<h>"}, {{"12", "<c>"}, {"10.0.0.1", ""}});
  EXPECT_NE(text.find("<th class=\"n\">a b</th><th>&lt;h&gt;</th>"), std::string::npos) << text;
  EXPECT_NE(text.find("<td class=\"n\">12</td><td>&lt;c&gt;</td>"), std::string::npos) << text;
  EXPECT_NE(text.find("<td>10.0.0.1</td>"), std::string::npos) << text;
}

}  // namespace
}  // namespace uroce::report
