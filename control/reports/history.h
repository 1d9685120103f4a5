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

// Absolute counters; rates are differences between two samples. In the order of kDaemonColumns, and
// of kPortColumns and kRoceColumns.
struct Sample {
  std::uint64_t unix_time_ms = 0;  // wall clock, which may be set; for display
  std::uint64_t monotonic_ms = 0;  // CLOCK_MONOTONIC
  std::vector<std::uint64_t> daemon;
  std::vector<std::vector<std::uint64_t>> devices;
  // Per device: the latencies, in nanoseconds, of messages timed since the previous sample, in the
  // order of kLatencyColumns for each line of latency.def. 0: none was timed. Gauges, not counters.
  std::vector<std::vector<std::uint64_t>> latencies;
};

class History {
 public:
  static constexpr std::size_t kSamplesMax = 600;

  // Adds the newest sample and drops the oldest beyond kSamplesMax. A counter that would decrease
  // keeps its value: a queue pair destroyed while the sample was taken may be missing in it.
  void add(Sample sample);
  [[nodiscard]] const std::deque<Sample>& samples() const { return samples_; }

 private:
  std::deque<Sample> samples_;
};

// {"interval_ms", "samples_max", "columns": {"daemon": [...], "device": [...], "levels": [...],
// "latency": [...]}, "devices": [...], "samples": [{"unix_time_ms", "monotonic_ms", "daemon":
// [...], "devices": [[...]], "latencies": [[...]]}]}, oldest first. Levels are the daemon's columns
// that are gauges. They and latencies are left out if the reader may not see them: a single user's
// times could be derived from those of all users.
std::string history_json(const History& history, const std::vector<std::string>& devices,
                         Duration interval, bool levels);

}  // namespace uroce::control
