#include "control/reports/recent_latencies.h"

#include <algorithm>

#include "control/reports/sampled_columns.h"

namespace uroce::control {

std::vector<std::uint64_t> RecentLatencies::since_remembered(const Latencies& now) const {
  static const LatencyHistogram none;
  std::vector<std::uint64_t> values;
  for (std::size_t i = 0; i < kLatencyCount; ++i) {
    const LatencyHistogram* const all = now.find(static_cast<LatencyKind>(i));
    const LatencyHistogram* const before = before_.find(static_cast<LatencyKind>(i));
    const LatencyHistogram added =
        (all != nullptr ? *all : none).since(before != nullptr ? *before : none);
    const bool any = added.count() != 0;
    for (const LatencyColumn& column : kLatencyColumns) {
      values.push_back(any ? std::max<Duration>(1, added.percentile(column.permille)) : 0);
    }
  }
  return values;
}

}  // namespace uroce::control
