#pragma once

// How long the messages took that were timed since the last sample: the difference of two sums of
// histograms, of the queue pairs and of those that are gone. A queue pair that goes while a sum is
// made may be missing in it, so what was ever in a sum stays in what the next one is compared with;
// otherwise all that it ever was timed at would seem new a second later.

#include <cstdint>
#include <vector>

#include "dataplane/qp/latency/latencies.h"

namespace uroce::control {

// Of one device. Control thread only.
class RecentLatencies {
 public:
  // In the order of kLatencyColumns of each line of latency.def, in nanoseconds: 1 at least, and 0
  // where none was timed. `now`: all that was timed since the daemon began.
  [[nodiscard]] std::vector<std::uint64_t> since_remembered(const Latencies& now) const;
  // A sample was taken.
  void remember(const Latencies& now) { before_.keep_most(now); }

 private:
  Latencies before_;
};

}  // namespace uroce::control
