#pragma once

// Latencies of messages and page faults as metrics: histograms with fixed bounds for ports and
// workers and, on request, summaries for queue pairs.

#include <nlohmann/json.hpp>

#include "control/metrics/metrics_page.h"

namespace uroce::control {

void write_latencies(const nlohmann::ordered_json& devices, MetricsPage& page);
void write_fault_times(const nlohmann::ordered_json& workers, MetricsPage& page);
void write_queue_pair_latencies(const nlohmann::ordered_json& sessions, MetricsPage& page);

}  // namespace uroce::control
