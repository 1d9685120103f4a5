#include "apps/report/rates.h"

#include <gtest/gtest.h>

namespace uroce::report {
namespace {

using Json = nlohmann::ordered_json;

Json history(const std::vector<std::pair<double, int>>& samples) {
  Json all = Json::array();
  for (const auto& [seconds, value] : samples) {
    all.push_back({{"unix_time_ms", seconds * 1'000},
                   {"daemon", {value, 2 * value}},
                   {"devices", {{10 * value}}}});
  }
  return {{"interval_ms", 1'000},
          {"devices", {"uroce0"}},
          {"columns", {{"daemon", {"busy", "all"}}, {"device", {"bytes"}}}},
          {"samples", all}};
}

std::string text(const Points& points) {
  std::string out;
  for (const Point& point : points) {
    char one[64];
    std::snprintf(one, sizeof(one), "%s%g:%g", out.empty() ? "" : " ", point.seconds, point.value);
    out += one;
  }
  return out;
}

TEST(Rates, AreWhatWasAddedInASecond) {
  const Rates rates(history({{100, 5}, {101, 8}, {103, 10}}));
  EXPECT_EQ(text(rates.of_daemon("busy")), "-2:3 0:1");
  EXPECT_EQ(text(rates.of_device(0, "bytes")), "-2:30 0:10");
  EXPECT_EQ(text(rates.level("busy")), "-3:5 -2:8 0:10");
  EXPECT_EQ(text(rates.share("busy", "all")), "-2:0.5 0:0.5");
  EXPECT_EQ(rates.seconds(), 3);
}

// While nothing moves no samples are taken: what was added came at the end of the pause.
TEST(Rates, APauseIsFlat) {
  const Rates rates(history({{100, 5}, {300, 8}}));
  EXPECT_EQ(text(rates.of_daemon("busy")), "-200:0 -1:0 0:3");
}

TEST(Rates, OfWhatIsNotThereAreNone) {
  const Rates one(history({{100, 5}}));
  EXPECT_EQ(text(one.of_daemon("busy")), "");
  EXPECT_EQ(text(one.of_daemon("other")), "");
  EXPECT_EQ(text(one.of_device(0, "other")), "");
}

TEST(Rates, NonsenseHasNone) {
  for (const char* const nonsense :
       {"null", "3", "[]", R"({"samples": 3})", R"({"devices": 3, "columns": []})",
        R"({"devices": [3], "columns": {"daemon": ["a", 4], "device": ["a"]},
            "samples": [{}, 3, {"unix_time_ms": "x", "daemon": ["y"], "devices": [3]}]})"}) {
    const Rates rates(Json::parse(nonsense));
    for (const Point& point : rates.of_daemon("a")) {
      EXPECT_EQ(point.value, 0) << nonsense;
    }
    EXPECT_LE(rates.devices().size(), 1U);
  }
}

}  // namespace
}  // namespace uroce::report
