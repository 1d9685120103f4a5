#pragma once

// A clock that advances only while its user runs: of a longer time between two calls of look() only
// kLookMax counts. So a process that is stopped, or gets no processor for long, uses up little of a
// timeout that it grants to others.

#include <algorithm>

#include "base/time.h"

namespace uroce {

class RunningTime {
 public:
  static constexpr Duration kLookMax = 100 * kNanosecondsPerMillisecond;

  // What has passed. `now` is any clock that doesn't go back.
  Duration look(Time now) {
    passed_ += std::min(now - looked_, kLookMax);
    looked_ = now;
    return passed_;
  }
  // When, by the clock of look(), whoever waits for `end` has to look next.
  [[nodiscard]] Time next_look(Duration end) const {
    return looked_ + std::min(std::max(end, passed_) - passed_, kLookMax);
  }

 private:
  Time looked_ = 0;
  Duration passed_ = 0;
};

}  // namespace uroce
