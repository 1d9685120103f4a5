#include "control/reports/latency_report.h"

#include <string>

namespace uroce::control {
namespace {

using Json = nlohmann::ordered_json;

Json json_of_summary(const LatencySummary& summary) {
  return {{"count", summary.count},
          {"p50_ns", summary.p50},
          {"p99_ns", summary.p99},
          {"p99_9_ns", summary.p99_9},
          {"max_ns", summary.max}};
}

}  // namespace

LatencySummary summarize(const LatencyHistogram& histogram) {
  return {.count = histogram.count(),
          .p50 = histogram.percentile(500),
          .p99 = histogram.percentile(990),
          .p99_9 = histogram.percentile(999),
          .max = histogram.max()};
}

LatencySummaries summarize(const Latencies& latencies) {
  LatencySummaries summaries;
  for (std::size_t i = 0; i < kLatencyCount; ++i) {
    if (const LatencyHistogram* histogram = latencies.find(static_cast<LatencyKind>(i))) {
      summaries[i] = summarize(*histogram);
    }
  }
  return summaries;
}

Json json_of(const LatencySummaries& summaries) {
  Json json = Json::object();
  for (std::size_t i = 0; i < kLatencyCount; ++i) {
    if (summaries[i].count != 0) {
      json[std::string(kLatencyTexts[i].name)] = json_of_summary(summaries[i]);
    }
  }
  return json;
}

Json json_of(const LatencyHistogram& histogram) {
  Json json = json_of_summary(summarize(histogram));
  json["sum_ns"] = histogram.sum();
  Json& up_to = json["up_to"] = Json::array();
  for (unsigned power = LatencyHistogram::kReportedMin; power <= LatencyHistogram::kPowerMax;
       ++power) {
    up_to.push_back(histogram.count_up_to(power));
  }
  return json;
}

Json json_of(const Latencies& latencies) {
  Json json = Json::object();
  for (std::size_t i = 0; i < kLatencyCount; ++i) {
    if (const LatencyHistogram* histogram = latencies.find(static_cast<LatencyKind>(i))) {
      json[std::string(kLatencyTexts[i].name)] = json_of(*histogram);
    }
  }
  return json;
}

}  // namespace uroce::control
