#pragma once

// The status report (control/reports/status.h) as a page of metrics.

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

namespace uroce::control {

struct MetricsQuery {
  bool open_metrics = false;  // OpenMetrics 1.0 instead of Prometheus' text format 0.0.4
  bool queue_pairs = false;   // include metrics of each queue pair
};

// Further queue pairs aren't listed.
inline constexpr std::size_t kMetricQueuePairsMax = 1'000;

// What the report lacks isn't on the page. If a worker didn't respond, the page has no counters,
// only the number of stuck threads.
[[nodiscard]] std::string metrics_text(const nlohmann::ordered_json& report,
                                       const MetricsQuery& query);

}  // namespace uroce::control
