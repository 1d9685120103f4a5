#pragma once

// The history of the last minutes: a ring of samples of the counters, which `uroce report` plots.
// Control thread only.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/time.h"

namespace uroce::control {

// Counters as they stood; who wants rates takes the difference of two. In the order of
// kDaemonColumns, and of kPortColumns and kRoceColumns.
struct Sample {
  std::uint64_t unix_time_ms = 0;  // for people; it is set now and then
  std::uint64_t monotonic_ms = 0;  // of the machine, so it never goes back
  std::vector<std::uint64_t> daemon;
  std::vector<std::vector<std::uint64_t>> devices;
  // Of each device: how long the messages took that were timed since the sample before, in the
  // order of kLatencyColumns of each line of latency.def, in nanoseconds. 0: none was timed.
  // Levels.
  std::vector<std::vector<std::uint64_t>> latencies;
};

class History {
 public:
  static constexpr std::size_t kSamplesMax = 600;

  // The newest; the oldest goes if there are too many. A counter that would go back stays: a queue
  // pair that went while the sample was taken may be missing in it.
  void add(Sample sample);
  [[nodiscard]] const std::deque<Sample>& samples() const { return samples_; }

 private:
  std::deque<Sample> samples_;
};

// {"interval_ms", "samples_max", "columns": {"daemon": [...], "device": [...], "levels": [...],
// "latency": [...]}, "devices": [...], "samples": [{"unix_time_ms", "monotonic_ms", "daemon":
// [...], "devices": [[...]], "latencies": [[...]]}]}, oldest first. Levels are those columns of the
// daemon's that are no counters. They and latencies are left out if the reader may not see them:
// from all users' times one could tell a single user's.
std::string history_json(const History& history, const std::vector<std::string>& devices,
                         Duration interval, bool levels);

}  // namespace uroce::control
