#pragma once

// Latencies of messages timed since the last sample: the difference of two sums of histograms, over
// existing and destroyed queue pairs. A queue pair that is destroyed while a sum is made may be
// missing in it. So the sum to compare with never decreases; otherwise that queue pair's whole
// history would seem new in the next sample.

#include <cstdint>
#include <vector>

#include "dataplane/qp/latency/latencies.h"

namespace uroce::control {

// For one device. Control thread only.
class RecentLatencies {
 public:
  // In the order of kLatencyColumns for each line of latency.def, in nanoseconds: at least 1; 0 if
  // none was timed. `now`: everything timed since the daemon started.
  [[nodiscard]] std::vector<std::uint64_t> since_remembered(const Latencies& now) const;
  // A sample was taken.
  void remember(const Latencies& now) { before_.keep_most(now); }

 private:
  Latencies before_;
};

}  // namespace uroce::control
