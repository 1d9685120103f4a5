#pragma once

// How long messages and page faults take, as metrics: histograms of ports and workers, whose number
// of bounds is fixed, and summaries of queue pairs, for those who ask.

#include <nlohmann/json.hpp>

#include "control/metrics/metrics_page.h"

namespace uroce::control {

void write_latencies(const nlohmann::ordered_json& devices, MetricsPage& page);
void write_fault_times(const nlohmann::ordered_json& workers, MetricsPage& page);
void write_queue_pair_latencies(const nlohmann::ordered_json& sessions, MetricsPage& page);

}  // namespace uroce::control
