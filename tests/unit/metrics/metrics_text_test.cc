#include "control/metrics/metrics_text.h"

#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "tests/unit/metrics/sample_report.h"

namespace uroce::control {
namespace {

bool has(const std::string& page, const std::string& line) {
  return page.starts_with(line + "\n") || page.find("\n" + line + "\n") != std::string::npos;
}

TEST(MetricsText, HasTheReportsNumbers) {
  const std::string page = metrics_text(sample_report(), {});
  for (const char* const line : {
           "uroce_info{version=\"1.2.3\"} 1",
           "node_infiniband_info{device=\"uroce0\",board_id=\"uroce\",firmware_version=\"1.2.3\","
           "hca_type=\"uroce\"} 1",
           "node_infiniband_port_data_received_bytes_total{device=\"uroce0\",port=\"1\"} 100",
           "node_infiniband_port_data_transmitted_bytes_total{device=\"uroce0\",port=\"1\"} "
           "12345678901234",
           "node_infiniband_port_errors_received_total{device=\"uroce0\",port=\"1\"} 3",
           "node_infiniband_state_id{device=\"uroce0\",port=\"1\"} 4",
           "node_infiniband_rate_bytes_per_second{device=\"uroce0\",port=\"1\"} 12500000000",
           "node_infiniband_packet_sequence_errors_total{device=\"uroce0\",port=\"1\"} 2",
           "node_infiniband_rx_icrc_encapsulated_errors_total{device=\"uroce0\",port=\"1\"} 7",
           "uroce_requests_sent_total{device=\"uroce0\",port=\"1\"} 30",
           "# HELP uroce_requests_sent_total Request packets sent for the first time",
           "# TYPE uroce_requests_sent_total counter",
           "uroce_worker_turns_total{worker=\"1\"} 6",
           "uroce_worker_absent_seconds_total{worker=\"0\"} 0.0015",
           "# TYPE uroce_operation_seconds histogram",
           "uroce_operation_seconds_bucket{device=\"uroce0\",port=\"1\",operation=\"write\","
           "le=\"1.024e-06\"} 0",
           "uroce_operation_seconds_bucket{device=\"uroce0\",port=\"1\",operation=\"write\","
           "le=\"4.096e-06\"} 4",
           "uroce_operation_seconds_bucket{device=\"uroce0\",port=\"1\",operation=\"write\","
           "le=\"+Inf\"} 5",
           "uroce_operation_seconds_sum{device=\"uroce0\",port=\"1\",operation=\"write\"} "
           "0.000123456",
           "uroce_operation_seconds_count{device=\"uroce0\",port=\"1\",operation=\"write\"} 5",
           "uroce_operation_seconds_count{device=\"uroce0\",port=\"1\",operation=\"read\"} 0",
           "uroce_queued_seconds_count{device=\"uroce0\",port=\"1\"} 0",
           "uroce_worker_page_fault_seconds_bucket{worker=\"0\",le=\"2.048e-06\"} 2",
           "uroce_worker_page_fault_seconds_sum{worker=\"0\"} 3e-06",
           "uroce_dropped_frames_total{reason=\"bad_icrc\"} 7",
           "uroce_dropped_frames_total{reason=\"no_receive\"} 1",
           "uroce_dropped_frames_total{reason=\"ring_full\"} 0",
           "uroce_sessions 1",
           "uroce_memory_regions 3",
           "uroce_queue_pairs{state=\"RTS\"} 1",
           "uroce_queue_pairs{state=\"INIT\"} 0",
           "uroce_cm_connections 2",
           "uroce_cm_events_total{event=\"received\"} 9",
       }) {
    EXPECT_TRUE(has(page, line)) << line << "\nin\n" << page;
  }
  EXPECT_EQ(page.find("uroce_qp_"), std::string::npos);
  EXPECT_EQ(page.find("# EOF"), std::string::npos);
}

TEST(MetricsText, CountersOfAWorkerThatDoesNotAnswerDoNotGoBack) {
  auto report = sample_report();
  report["complete"] = true;
  EXPECT_EQ(metrics_text(report, {}), metrics_text(sample_report(), {}));
  report["complete"] = false;
  const std::string page = metrics_text(report, {});
  EXPECT_TRUE(has(page, "uroce_stuck_threads 0"));
  EXPECT_EQ(page.find("_total"), std::string::npos);
}

TEST(MetricsText, OpenMetricsNamesFamiliesWithoutTotal) {
  const std::string page = metrics_text(sample_report(), {.open_metrics = true});
  EXPECT_TRUE(has(page, "# TYPE uroce_requests_sent counter"));
  EXPECT_TRUE(has(page, "uroce_requests_sent_total{device=\"uroce0\",port=\"1\"} 30"));
  EXPECT_TRUE(page.ends_with("\n# EOF\n"));
}

TEST(MetricsText, QueuePairsOnRequestAndNotTooMany) {
  auto report = sample_report();
  EXPECT_TRUE(has(
      metrics_text(report, {.queue_pairs = true}),
      "uroce_qp_requests_sent_total{device=\"uroce0\",qpn=\"18\",command=\"a \\\"b\\\\c\"} 20"));
  for (const char* const line :
       {"# TYPE uroce_qp_operation_seconds summary",
        "uroce_qp_operation_seconds{device=\"uroce0\",qpn=\"17\",command=\"a \\\"b\\\\c\","
        "operation=\"read\",quantile=\"0.99\"} 3e-06",
        "uroce_qp_operation_seconds_count{device=\"uroce0\",qpn=\"17\",command=\"a \\\"b\\\\c\","
        "operation=\"read\"} 4"}) {
    EXPECT_TRUE(has(metrics_text(report, {.queue_pairs = true}), line)) << line;
  }
  const auto qp = report["sessions"][1]["qps"][0];
  for (std::size_t i = 0; i < 2 * kMetricQueuePairsMax; ++i) {
    report["sessions"][1]["qps"].push_back(qp);
  }
  const std::string page = metrics_text(report, {.queue_pairs = true});
  std::size_t listed = 0;
  for (auto at = page.find("\nuroce_qp_requests_sent_total{"); at != std::string::npos;
       at = page.find("\nuroce_qp_requests_sent_total{", at + 1)) {
    ++listed;
  }
  EXPECT_EQ(listed, kMetricQueuePairsMax);
}

TEST(MetricsText, EachFamilyIsDescribedOnce) {
  std::istringstream page(metrics_text(sample_report(), {.queue_pairs = true}));
  std::set<std::string> described;
  std::string family;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("# TYPE ")) {
      family = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(described.insert(family).second) << family;
    } else if (!line.starts_with("#")) {
      const std::string name = line.substr(0, line.find_first_of("{ "));
      EXPECT_EQ(name.substr(0, family.size()), family);
      const std::set<std::string> parts = {"", "_bucket", "_sum", "_count"};
      EXPECT_TRUE(parts.contains(name.substr(family.size()))) << name;
    }
  }
  EXPECT_GT(described.size(), 60U);
}

TEST(MetricsText, InvalidReportsAreTolerated) {
  for (const char* const text :
       {"{}", "[]", "null", R"({"devices": 3, "workers": "x", "sessions": {}})",
        R"({"devices": [1], "workers": [null], "sessions": [[]]})"}) {
    EXPECT_FALSE(metrics_text(nlohmann::ordered_json::parse(text), {.queue_pairs = true}).empty());
  }
}

// The metrics that the dashboard queries exist: a renamed metric would leave an empty panel.
TEST(Dashboard, QueriesExistingMetrics) {
  std::ifstream file(UROCE_DASHBOARD);
  const auto dashboard = nlohmann::json::parse(file, nullptr, false);
  ASSERT_TRUE(dashboard.is_object());
  const std::string page = metrics_text(sample_report(), {});
  std::set<std::string> asked;
  const std::regex metric("(uroce|node_infiniband)_[a-z_]+");
  for (const auto& panel : dashboard["panels"]) {
    for (const auto& target : panel.value("targets", nlohmann::json::array())) {
      const auto expression = target["expr"].get<std::string>();
      for (std::sregex_iterator at(expression.begin(), expression.end(), metric), end; at != end;
           ++at) {
        asked.insert(std::regex_replace(at->str(), std::regex("_bucket$"), ""));
      }
    }
  }
  EXPECT_GT(asked.size(), 15U);
  for (const std::string& name : asked) {
    EXPECT_NE(page.find("# TYPE " + name + " "), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace uroce::control
