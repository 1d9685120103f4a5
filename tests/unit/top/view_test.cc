#include "apps/top/view.h"

#include <gtest/gtest.h>

namespace uroce::top {
namespace {

using Json = nlohmann::ordered_json;

Json report() {
  return Json::parse(R"({
    "version": "1.2.3", "pid": 7, "stuck_threads": [],
    "workers": [{"worker": 0, "turns": 1000, "idle_turns": 600, "rx_frames": 0, "tx_frames": 0, "absent_us": 0, "page_faults": 0,
                 "drops": {"bad_icrc": 1}}],
    "sessions": [{"id": 2, "pid": 99, "uid": 1000, "command": "ib_write_bw", "device": "uroce0", "regions": 3, "qps": [
        {"qpn": 17, "type": "RC", "state": "RTS", "remote_gid": "10.0.0.2", "remote_qpn": 5, "bytes_sent": 0, "direct_bytes": 0, "bytes_received": 0,
         "requests_sent": 0, "requests_resent": 0},
        {"qpn": 18, "type": "UD", "state": "RTS", "remote_gid": "", "remote_qpn": 0, "bytes_sent": 0, "direct_bytes": 0, "bytes_received": 0,
         "requests_sent": 0, "requests_resent": 0}]}],
    "devices": [{"name": "uroce0", "link": "up", "rx_bytes": 0, "tx_bytes": 0, "rx_frames": 0, "tx_frames": 0, "rx_missed": 0,
                 "hw_counters": {"requests_resent": 0}}]})");
}

Json& qp(Json& report, std::size_t index) { return report["sessions"][0]["qps"][index]; }

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    text += line + "\n";
  }
  return text;
}

TEST(View, RatesArePerSecond) {
  const Json before = report();
  Json now = report();
  now["devices"][0]["tx_bytes"] = 3'000'000;
  now["devices"][0]["hw_counters"]["requests_resent"] = 8;
  now["workers"][0]["turns"] = 1'200;
  now["workers"][0]["idle_turns"] = 650;
  now["workers"][0]["drops"] = {{"bad_icrc", 5}, {"no_receive", 4}};
  qp(now, 0)["bytes_sent"] = 20'690;
  qp(now, 0)["direct_bytes"] = 4'000;
  const auto lines = view_lines(before, now, 2, {.latency = false, .users = false});
  const std::string text = joined(lines);
  EXPECT_NE(text.find("uroced 1.2.3, pid 7"), std::string::npos);
  ASSERT_GE(lines.size(), 9U);
  EXPECT_NE(lines[2].find("uroce0     up            0      1.5M"), std::string::npos) << text;
  EXPECT_NE(lines[2].find("       4 "), std::string::npos) << "sent again: " << text;
  EXPECT_NE(lines[4].find("0            75 %"), std::string::npos) << text;
  EXPECT_NE(lines[4].find("       4 "), std::string::npos) << "drops: " << text;
  EXPECT_NE(lines[6].find("2       99      1000   ib_write_bw          2        3     12.3k"),
            std::string::npos)
      << text;
  EXPECT_NE(lines[8].find("17        RC  RTS   ib_write_bw          0     12.3k"),
            std::string::npos)
      << text;
  EXPECT_NE(lines[8].find("10.0.0.2 QP 5"), std::string::npos) << text;
}

TEST(View, SortsQueuePairsAndCountsTheRest) {
  const Json before = report();
  Json now = report();
  qp(now, 0)["bytes_sent"] = 10;
  qp(now, 1)["requests_resent"] = 10;
  const auto first = [&](SortBy sort) {
    const auto lines = view_lines(before, now, 1,
                                  {.ports = false,
                                   .workers = false,
                                   .latency = false,
                                   .users = false,
                                   .programs = false,
                                   .sort = sort},
                                  1);
    EXPECT_EQ(lines.size(), 4U);
    EXPECT_EQ(lines.back(), "and 1 other queue pairs");
    return lines[2].substr(0, 2);
  };
  EXPECT_EQ(first(SortBy::kSent), "17");
  EXPECT_EQ(first(SortBy::kResent), "18");
  EXPECT_EQ(first(SortBy::kNumber), "17");
}

TEST(View, UsersAreSumsOfTheirPrograms) {
  Json before = report();
  before["sessions"].push_back(before["sessions"][0]);
  before["sessions"][1]["id"] = 3;
  before["sessions"].push_back(
      {{"id", 4}, {"uid", 7}, {"device", "uroce0"}, {"qps", Json::array()}});
  Json now = before;
  now["sessions"].push_back({{"id", 5}, {"uid", 8}, {"device", ""}});  // has no device open
  qp(now, 0)["bytes_sent"] = 1'000;
  qp(now, 0)["outstanding"] = 3;
  now["sessions"][1]["qps"][0]["direct_bytes"] = 0;
  now["sessions"][1]["qps"][1]["bytes_sent"] = 3'000;
  now["sessions"][1]["qps"][1]["outstanding"] = 4;
  const auto lines = view_lines(before, now, 2,
                                {.ports = false,
                                 .workers = false,
                                 .latency = false,
                                 .programs = false,
                                 .queue_pairs = false});
  ASSERT_EQ(lines.size(), 4U) << joined(lines);
  EXPECT_TRUE(lines[1].starts_with("USER "));
  EXPECT_EQ(lines[2], "1000              2      4        7        2k         0        0");
  EXPECT_EQ(lines[3], "7                 1      0        0         0         0        0");
}

TEST(View, LatencyIsThatOfTheMostFrequentOperation) {
  const Json times = {{"count", 12'345},
                      {"p50_ns", 900},
                      {"p99_ns", 12'340},
                      {"p99_9_ns", 4'560'000},
                      {"max_ns", 7'800'000'000}};
  Json now = report();
  now["devices"][0]["latency"] = {{"write", times}};
  now["workers"][0]["page_fault_time"] = times;
  qp(now, 1)["outstanding"] = 5;
  qp(now, 1)["latency"] = {{"queued", {{"count", 99'999}, {"p50_ns", 1}, {"p99_ns", 2}}},
                           {"read", {{"count", 2}, {"p50_ns", 3}, {"p99_ns", 4}}},
                           {"write", times}};
  const auto lines = view_lines({}, now, 0,
                                {.ports = false,
                                 .workers = false,
                                 .users = false,
                                 .programs = false,
                                 .sort = SortBy::kLatency});
  ASSERT_EQ(lines.size(), 7U) << joined(lines);
  EXPECT_TRUE(lines[1].starts_with("LATENCY "));
  EXPECT_EQ(lines[2], "uroce0     write          12.3k     900ns    12.3us    4.56ms      7.8s");
  EXPECT_EQ(lines[3], "worker 0   page fault     12.3k     900ns    12.3us    4.56ms      7.8s");
  EXPECT_EQ(lines[5].substr(0, 91),
            "18        UD  RTS   ib_write_bw          5         0         0              900ns   "
            "12.3us ");
}

// The rate that congestion control allows, in the unit of the sent bytes.
TEST(View, LimitedQueuePairsAreSortedSlowestFirst) {
  Json now = report();
  now["sessions"][0]["qps"].push_back(qp(now, 1));
  qp(now, 2)["qpn"] = 19;
  qp(now, 0)["rate_mbps"] = nullptr;
  qp(now, 1)["rate_mbps"] = 40'000;
  qp(now, 2)["rate_mbps"] = 8;
  const auto lines = view_lines({}, now, 0,
                                {.ports = false,
                                 .workers = false,
                                 .latency = false,
                                 .users = false,
                                 .programs = false,
                                 .sort = SortBy::kLimit});
  ASSERT_EQ(lines.size(), 5U) << joined(lines);
  EXPECT_TRUE(lines[0].ends_with("by: limit")) << lines[0];
  const std::string row = " ib_write_bw          0         0         0";
  EXPECT_TRUE(lines[2].starts_with("19        UD  RTS  " + row + "        1M ")) << lines[2];
  EXPECT_TRUE(lines[3].starts_with("18        UD  RTS  " + row + "        5G ")) << lines[3];
  EXPECT_TRUE(lines[4].starts_with("17        RC  RTS  " + row + "           ")) << lines[4];
}

TEST(View, NewOrRestartedCountersHaveNoRate) {
  Json now = report();
  qp(now, 0)["bytes_sent"] = 1'000'000;
  EXPECT_EQ(joined(view_lines({}, now, 0, {})).find("1.0M"), std::string::npos);
  EXPECT_EQ(joined(view_lines(now, report(), 1, {})).find('-'), std::string::npos)
      << "no negative rates";
}

TEST(View, InvalidReportsAreTolerated) {
  for (const char* const text :
       {"null", "3", "[]",
        R"({"devices": 1, "workers": [1, null], "sessions": [{"qps": 3, "device": "x"}]})"}) {
    EXPECT_FALSE(view_lines(Json::parse(text), Json::parse(text), 1, {}).empty());
  }
}

TEST(View, StuckThreadsAreOnTop) {
  Json now = report();
  now["stuck_threads"] = Json::array({{{"seconds", 12}, {"name", "worker 0"}}});
  EXPECT_EQ(view_lines(now, now, 1, {})[1], "STUCK for 12 s: worker 0");
}

}  // namespace
}  // namespace uroce::top
