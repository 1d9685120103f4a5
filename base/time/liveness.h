#pragma once

// Detects whether a thread is stuck: how long it hasn't beaten its heartbeat
// (base/time/heartbeat.h) although it could have run. Not counted: time in which it was runnable
// but had no processor, and time in which the observer didn't run either (the whole process was
// stopped). So a busy machine isn't taken for a stuck thread.

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"
#include "base/time/heartbeat.h"

namespace uroce {

// What the kernel says of a thread of this process (/proc/self/task).
struct ThreadState {
  char state = '?';  // R: runs or is ready to; D, S: waits
  Duration processor_time = 0;
};
[[nodiscard]] std::optional<ThreadState> thread_state(pid_t thread);
// "waits in the system call 0 (read), in the kernel's pipe_read", or "runs".
[[nodiscard]] std::string describe_activity(pid_t thread);

// One object per observed thread; belongs to the observer.
class Liveness {
 public:
  // Checks that are further apart count as one of this length.
  static constexpr Duration kIntervalMax = 500 * kNanosecondsPerMillisecond;

  explicit Liveness(const Heartbeat& heartbeat) : heartbeat_(&heartbeat) {}

  // For how long it has been stuck; 0: it lives, or waits for work. To be called every kIntervalMax
  // or more often.
  Duration check(Time now);
  // The same with what the kernel says given.
  Duration check(Time now, const std::optional<ThreadState>& state);

  [[nodiscard]] const Heartbeat& heartbeat() const { return *heartbeat_; }

 private:
  const Heartbeat* heartbeat_;
  std::uint64_t beats_ = 1;
  Time checked_ = 0;
  std::optional<Duration> processor_time_;  // at the last check; none: it has lived since
  Duration stuck_ = 0;
};

}  // namespace uroce
