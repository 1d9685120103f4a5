#pragma once

// A clock that advances only while its user runs: of a longer time between two calls of update()
// only kStepMax counts. So a process that is stopped, or gets no processor for long, uses up little
// of a timeout that it grants to others.

#include <algorithm>

#include "base/time.h"

namespace uroce {

class RunningTime {
 public:
  static constexpr Duration kStepMax = 100 * kNanosecondsPerMillisecond;

  // What has passed. `now` is any clock that doesn't go back.
  Duration update(Time now) {
    passed_ += std::min(now - updated_, kStepMax);
    updated_ = now;
    return passed_;
  }
  // When, by the clock of update(), whoever waits for `end` has to call it next.
  [[nodiscard]] Time next_update(Duration end) const {
    return updated_ + std::min(std::max(end, passed_) - passed_, kStepMax);
  }

 private:
  Time updated_ = 0;
  Duration passed_ = 0;
};

}  // namespace uroce
