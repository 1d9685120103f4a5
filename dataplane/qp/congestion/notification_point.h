#pragma once

// The notification point of congestion control, for one queue pair: after a packet marked by a
// switch, the sender is sent a CNP (IBTA vol. 1, annex A17.9.3), but not for each one.

#include "base/time.h"

namespace uroce {

class NotificationPoint {
 public:
  // A marked packet came. The first that comes `interval` after the last notification asks for
  // another.
  void on_marked(Time now) { pending_ = pending_ || now >= silent_until_; }
  [[nodiscard]] bool pending() const { return pending_; }
  void sent(Time now, Duration interval) {
    pending_ = false;
    silent_until_ = now + interval;
  }
  void forget() { *this = {}; }

 private:
  bool pending_ = false;
  Time silent_until_ = 0;
};

}  // namespace uroce
