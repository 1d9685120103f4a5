#pragma once

// Which of a queue pair's work requests is being timed: one at a time, as round trips are. So it
// costs a comparison for each of the others, and no time stamp in a work request. There is always
// one under way while anything is, so whatever holds up the queue is seen, however short.
//
// Of those that a look at the ring finds, another place's is taken each time: the first one would
// always have waited least.

#include <cstdint>

#include "base/time.h"

namespace uroce {

class MessageTimer {
 public:
  // [from, to) were found in the ring.
  void found(std::uint32_t from, std::uint32_t to, Time now) {
    if (index_ == kNone && from != to) {
      index_ = from + places_++ % (to - from);
      since_ = now;
    }
  }

  [[nodiscard]] bool times(std::uint32_t index) const { return index_ == index; }
  [[nodiscard]] Duration taken(Time now) const { return now - since_; }
  void stop() { index_ = kNone; }

 private:
  static constexpr std::uint64_t kNone = UINT64_MAX;  // indices have 32 bits

  std::uint64_t index_ = kNone;
  Time since_ = 0;
  std::uint32_t places_ = 0;
};

}  // namespace uroce
