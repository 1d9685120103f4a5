#pragma once

// Message latencies (dataplane/qp/latency) for the status report, in nanoseconds.

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "dataplane/qp/latency/latencies.h"

namespace uroce::control {

struct LatencySummary {
  std::uint64_t count = 0;
  Duration p50 = 0, p99 = 0, p99_9 = 0, max = 0;
};
using LatencySummaries = std::array<LatencySummary, kLatencyCount>;  // index: LatencyKind

[[nodiscard]] LatencySummary summarize(const LatencyHistogram& histogram);
// Runs in a worker's turn: allocates nothing.
[[nodiscard]] LatencySummaries summarize(const Latencies& latencies);

// Keyed by the names of latency.def; kinds without samples are left out.
[[nodiscard]] nlohmann::ordered_json json_of(const LatencySummaries& summaries);
// With the sum and, for metrics, `up_to`: the number of samples of at most 2^n ns, n from
// LatencyHistogram::kReportedMin to kPowerMax.
[[nodiscard]] nlohmann::ordered_json json_of(const Latencies& latencies);
[[nodiscard]] nlohmann::ordered_json json_of(const LatencyHistogram& histogram);

}  // namespace uroce::control
