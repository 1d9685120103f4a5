#include "apps/report/page.h"

#include <gtest/gtest.h>

namespace uroce::report {
namespace {

using Json = nlohmann::ordered_json;

std::size_t count(const std::string& text, const std::string& words) {
  std::size_t found = 0;
  for (std::size_t at = text.find(words); at != std::string::npos;
       at = text.find(words, at + words.size())) {
    ++found;
  }
  return found;
}

// Names given by programs, peers and files are shown as text.
TEST(Page, EscapesForeignNames) {
  constexpr const char* kEvil = "<evil a=\"b\">&\xff";
  const Json gathered = {
      {"made", kEvil},
      {"tool", kEvil},
      {"kernel", kEvil},
      {"findings", {{{"weight", kEvil}, {"about", kEvil}, {"sentence", kEvil}}}},
      {"command_line", {kEvil, kEvil}},
      {"configuration", kEvil},
      {"limits", {{"users", {{{"uid", kEvil}, {"limits", {{{"name", kEvil}}}}}}}}},
      {"errors", {{"errors", {{{"number", kEvil}, {"program", kEvil}, {"text", kEvil}}}}}},
      {"history",
       {{"devices", {kEvil, kEvil}},
        {"columns", {{"daemon", {"drops"}}, {"device", {"tx_bytes"}}}},
        {"samples",
         {{{"unix_time_ms", 0}, {"daemon", {0}}, {"devices", {{0}, {0}}}},
          {{"unix_time_ms", 1'000}, {"daemon", {1}}, {"devices", {{1}, {1}}}}}}}},
      {"status",
       {{"version", kEvil},
        {"devices", {{{"name", kEvil}, {"addresses", {{{"address", kEvil}}}}}}},
        {"workers", {{{"drops", {{kEvil, kEvil}}}}}},
        {"sessions", {{{"command", kEvil}, {"qps", {{{"remote_gid", kEvil}}}}}}}}}};
  const std::string text = page(gathered);
  EXPECT_EQ(count(text, "<evil"), 0U);
  EXPECT_EQ(count(text, "\xff"), 0U) << "it is UTF-8";
  EXPECT_GT(count(text, "&lt;evil a=&quot;b&quot;&gt;&amp;"), 15U);
  EXPECT_GT(count(text, "<polyline"), 1U);
}

TEST(Page, StatesHowManyRowsWereLeftOut) {
  Json sessions = Json::array();
  for (std::size_t i = 0; i < kPageRowsMax + 5; ++i) {
    sessions.push_back({{"id", i}});
  }
  const std::string text = page({{"status", {{"sessions", sessions}}}});
  EXPECT_EQ(count(text, "and 5 more"), 1U);
}

TEST(Page, HasLatenciesIfTheDaemonMeasuresThem) {
  const Json write = {{"count", 5},
                      {"p50_ns", 12'340},
                      {"p99_ns", 56'780},
                      {"p99_9_ns", 60'000},
                      {"max_ns", 61'000}};
  const Json faults = {{"count", 0}, {"p50_ns", 0}};
  const std::string text =
      page({{"status",
             {{"devices", {{{"name", "uroce0"}, {"latency", {{"write", write}, {"read", 3}}}}}},
              {"workers", {{{"worker", 0}, {"page_fault_time", faults}}}}}}});
  EXPECT_NE(text.find("<td>write</td><td class=\"n\">5</td><td class=\"n\">12.3</td>"
                      "<td class=\"n\">56.8</td>"),
            std::string::npos)
      << text;
  EXPECT_EQ(count(text, "page fault</td>"), 0U) << "there was none";
  EXPECT_EQ(count(page(Json::object()), "How long messages take"), 0U);
}

// One plot for each operation that was timed.
TEST(Page, DrawsLatenciesOverTime) {
  Json history = {
      {"devices", {"uroce0"}},
      {"columns",
       {{"daemon", Json::array()},
        {"device", {"tx_bytes"}},
        {"latency", {"send_p50_ns", "send_p99_ns", "round_trip_p50_ns", "round_trip_p99_ns"}}}},
      {"samples", Json::array()}};
  for (int i = 0; i < 3; ++i) {
    history["samples"].push_back({{"unix_time_ms", 1'000 * i},
                                  {"monotonic_ms", 1'000 * i},
                                  {"devices", {{i}}},
                                  {"latencies", {{0, 0, 12'340, 56'780}}}});
  }
  const std::string text = page({{"history", history}});
  EXPECT_NE(text.find("<figcaption>How long it took: round trip, us</figcaption>"),
            std::string::npos);
  EXPECT_NE(text.find("p99 <b>56.8</b>, at most 56.8"), std::string::npos) << text;
  EXPECT_EQ(count(text, "How long it took: send"), 0U) << "none was timed";
  for (Json& sample : history["samples"]) {
    sample["latencies"] = {{0, 0, 0, 0}};  // --latency off
  }
  EXPECT_EQ(count(page({{"history", history}}), "How long it took"), 0U);
}

TEST(Page, NeedsNoDaemon) {
  for (const Json& nothing : {Json::object(), Json{{"status", nullptr}, {"history", nullptr}},
                              Json{{"status", 3}, {"history", {3}}, {"limits", "x"}}}) {
    EXPECT_NE(page(nothing).find("</html>"), std::string::npos);
  }
}

}  // namespace
}  // namespace uroce::report
