#pragma once

// How long messages take (dataplane/qp/latency), as the status report has it. All in nanoseconds.

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
// In a worker's turn: takes no memory.
[[nodiscard]] LatencySummaries summarize(const Latencies& latencies);

// By the names of latency.def: those that have samples.
[[nodiscard]] nlohmann::ordered_json json_of(const LatencySummaries& summaries);
// With the sum and, for metrics, `up_to`: how many took at most 2^n ns, n from
// LatencyHistogram::kReportedMin to kPowerMax.
[[nodiscard]] nlohmann::ordered_json json_of(const Latencies& latencies);
[[nodiscard]] nlohmann::ordered_json json_of(const LatencyHistogram& histogram);

}  // namespace uroce::control
