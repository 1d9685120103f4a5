#pragma once

// How long a worker was kept from running, as far as it can tell by itself. Between two turns it
// goes on at once, or sleeps until a time of its own choice; what comes on top is absence: others
// had the processor, or the process was stopped. Its queue pairs don't hold that time against their
// peers, whose answers lie unread in the port meanwhile.

#include <algorithm>

#include "base/time.h"

namespace uroce {

class RunDelay {
 public:
  // A shorter gap is a long turn, or the clock's way of looking at it.
  static constexpr Duration kMin = 1 * kNanosecondsPerMillisecond;

  // The worker goes to sleep until `until` at the latest. It may be woken earlier; when that should
  // have been can't be told.
  void sleeps_until(Time until) { expected_ = std::max(expected_, until); }

  // A turn begins: how long it should have begun ago, 0 if that isn't worth the name.
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
