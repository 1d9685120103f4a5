#include "apps/report/rates.h"

#include <gtest/gtest.h>

#include <cmath>

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

TEST(Rates, AreIncreasesPerSecond) {
  const Rates rates(history({{100, 5}, {101, 8}, {103, 10}}));
  EXPECT_EQ(text(rates.of_daemon("busy")), "-2:3 0:1");
  EXPECT_EQ(text(rates.of_device(0, "bytes")), "-2:30 0:10");
  EXPECT_EQ(text(rates.level("busy")), "-3:5 -2:8 0:10");
  EXPECT_EQ(text(rates.share("busy", "all")), "-2:0.5 0:0.5");
  EXPECT_EQ(rates.seconds(), 3);
}

// No samples are taken while there is no activity: the increase belongs to the end of the pause.
TEST(Rates, APauseIsFlat) {
  const Rates rates(history({{100, 5}, {300, 8}}));
  EXPECT_EQ(text(rates.of_daemon("busy")), "-200:0 -1:0 0:3");
}

// The wall clock is set back by an hour, and forward again.
TEST(Rates, UseTheMonotonicClock) {
  Json steps = history({{7'200, 5}, {3'601, 8}, {7'202, 10}});
  for (std::size_t i = 0; i < 3; ++i) {
    steps["samples"][i]["monotonic_ms"] = 50'000 + 1'000 * i;
  }
  const Rates rates(steps);
  EXPECT_EQ(text(rates.of_daemon("busy")), "-1:3 0:2");
  EXPECT_EQ(rates.seconds(), 2);
}

TEST(Rates, LatenciesHaveGapsWhereNothingWasTimed) {
  Json timed = history({{100, 0}, {101, 1}, {102, 2}, {200, 3}});
  timed["columns"]["latency"] = {"write_p50_ns", "write_p99_ns", "round_trip_p50_ns",
                                 "round_trip_p99_ns"};
  const std::vector<int> p99s{0, 1'500, 0, 2'000};
  for (std::size_t i = 0; i < p99s.size(); ++i) {
    timed["samples"][i]["latencies"] = {{p99s[i] / 2, p99s[i], 0, 0}};
  }
  const Rates rates(timed);
  EXPECT_EQ(rates.timed(), (std::vector<std::string>{"write", "round_trip"}));
  EXPECT_EQ(text(rates.latency(0, "write", "p99")), "-100:nan -99:1.5 -98:nan -1:nan 0:2");
  EXPECT_EQ(text(rates.latency(0, "write", "p50")), "-100:nan -99:0.75 -98:nan -1:nan 0:1");
  EXPECT_EQ(text(rates.latency(0, "read", "p99")), "");
  EXPECT_TRUE(Rates(history({{100, 5}})).timed().empty()) << "a report without latencies";
}

TEST(Rates, OfUnknownColumnsAreEmpty) {
  const Rates one(history({{100, 5}}));
  EXPECT_EQ(text(one.of_daemon("busy")), "");
  EXPECT_EQ(text(one.of_daemon("other")), "");
  EXPECT_EQ(text(one.of_device(0, "other")), "");
}

TEST(Rates, OfInvalidReportsAreEmptyOrZero) {
  for (const char* const nonsense :
       {"null", "3", "[]", R"({"samples": 3})", R"({"devices": 3, "columns": []})",
        R"({"devices": [3], "columns": {"daemon": ["a", 4], "device": ["a"]},
            "samples": [{}, 3, {"unix_time_ms": "x", "daemon": ["y"], "devices": [3]}]})",
        R"({"devices": ["d"], "columns": {"latency": ["a_p50_ns", 3]},
            "samples": [{"latencies": 3}, {"latencies": [["x"]], "monotonic_ms": "y"}, 4]})"}) {
    const Rates rates(Json::parse(nonsense));
    for (const Point& point : rates.of_daemon("a")) {
      EXPECT_EQ(point.value, 0) << nonsense;
    }
    EXPECT_LE(rates.devices().size(), 1U);
    for (std::size_t device = 0; device < rates.devices().size(); ++device) {
      for (const Point& point : rates.latency(device, "a", "p50")) {
        EXPECT_TRUE(std::isnan(point.value)) << nonsense;
      }
    }
  }
}

}  // namespace
}  // namespace uroce::report
