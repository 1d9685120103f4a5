#pragma once

// The status report's part on the daemon's threads.

#include <cstdint>
#include <nlohmann/json.hpp>

#include "control/reports/watchdog.h"
#include "dataplane/engine/worker.h"
#include "dataplane/qp/latency/latency_histogram.h"

namespace uroce::control {

[[nodiscard]] nlohmann::ordered_json worker_status(std::uint32_t index, const WorkerCounters& c,
                                                   const LatencyHistogram& faults);

// Threads that are stuck, and where. `watchdog`: nullptr if the threads aren't watched.
[[nodiscard]] nlohmann::ordered_json stuck_threads(const Watchdog* watchdog);

}  // namespace uroce::control
