#pragma once

// How long a worker was runnable but not running (Linux's run_delay), as far as it can tell from
// the gaps between its turns. Between two turns it either continues at once or sleeps until a time
// of its own choice; any further delay means that other threads had the processor, or that the
// process was stopped. Queue pairs don't count that time against their peers, whose replies may be
// waiting in the port.

#include <algorithm>

#include "base/time.h"

namespace uroce {

class RunDelay {
 public:
  // Shorter gaps are long turns, or the clock's granularity.
  static constexpr Duration kMin = 1 * kNanosecondsPerMillisecond;

  // The worker goes to sleep until `until` at the latest. If it is woken earlier, the delay of that
  // wake-up can't be measured.
  void sleeps_until(Time until) { expected_ = std::max(expected_, until); }

  // A turn begins. Returns by how much it is late; 0 if that is less than kMin.
  [[nodiscard]] Duration turn_begins(Time now) {
    const bool away = expected_ != 0 && now >= expected_ && now - expected_ >= kMin;
    const Duration since = away ? now - expected_ : 0;
    expected_ = now;
    return since;
  }

 private:
  Time expected_ = 0;  // 0: there was no turn yet
};

}  // namespace uroce
