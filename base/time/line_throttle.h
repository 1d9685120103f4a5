#pragma once

// How often the log may say what a program can cause again and again, by reconnecting for example:
// once in kSilence. One throttle for each thing that can be said, of one thread.

#include "base/time.h"

namespace uroce {

class LineThrottle {
 public:
  static constexpr Duration kSilence = 10 * kNanosecondsPerSecond;

  // Whether it is to be said now. `now` is any clock that doesn't go back.
  [[nodiscard]] bool is_due(Time now) {
    const bool due = silent_until_ <= now;
    if (due) {
      silent_until_ = now + kSilence;
    }
    return due;
  }
  [[nodiscard]] Time next() const { return silent_until_; }  // when it is

 private:
  Time silent_until_ = 0;
};

}  // namespace uroce
