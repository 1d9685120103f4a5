#pragma once

// Selects the work requests of a queue pair that are timed: one at a time, as with round trips. So
// the others cost a comparison each, and work requests need no time stamp. The next one is selected
// as soon as any is found, so delays of the queue are hardly missed.
//
// The time begins with the post, if the program stamps it (abi/post_stamp.h): a stamp is requested
// as soon as the previous work request is done, and the program's next post answers. The stamp
// can't be trusted, and counts only if the work request was found just now and the time lies
// between the request for the stamp and now; so a wrong one spoils no more than the program's own
// samples, within these bounds. For work requests posted before the request was visible, or by a
// program that doesn't stamp, the time begins with the turn in which they are found.
//
// Of the work requests found at a time, a different position is taken each time: the first one
// would always have waited least.
//
// With many busy queue pairs each message may be the only one of its queue pair, and would be
// timed; the cache lines that this touches would then be a quarter of a message's cost. So after
// each timed message some are passed over, and the stamp is only requested afterwards.

#include <algorithm>
#include <cstdint>

#include "abi/post_stamp.h"
#include "base/time.h"

namespace uroce {

class MessageTimer {
 public:
  // Messages that are passed over if many queue pairs are busy.
  static constexpr std::uint32_t kPassing = 15;

  [[nodiscard]] bool idle() const { return index_ == kNone; }

  // `count` work requests were found in the ring. True if they are passed over.
  [[nodiscard]] bool skip(std::uint32_t count) {
    if (passing_ == 0) {
      return false;
    }
    passing_ -= std::min(passing_, count);
    return true;
  }
  // No message is passed over any more: the next one may be asked for a stamp.
  [[nodiscard]] bool times_next() const { return passing_ == 0; }

  // The number of the stamp to be requested from the program.
  [[nodiscard]] std::uint32_t next_stamp(Time now) {
    requested_at_ = now;
    return ++stamp_;
  }

  // [from, to) were found in the ring, while none was timed. REQUIRES: idle() and from != to.
  void found(std::uint32_t from, std::uint32_t to, const abi::PostStamp& stamp, Time now) {
    const std::uint32_t count = to - from;
    passing_ = kPassing;
    since_ = now;
    begun_ = kNever;
    if (stamp.number != stamp_ || stamp.index - from >= count) {
      index_ = from + stamp_ % count;
      return;
    }
    index_ = stamp.index;
    // It may be a little later than the turn's time: posted between that and the look.
    if (stamp.time_ns >= requested_at_ && stamp.time_ns < now) {
      since_ = stamp.time_ns;
    }
  }

  [[nodiscard]] bool times(std::uint32_t index) const { return index_ == index; }
  void begin(Time now) { begun_ = now; }
  [[nodiscard]] Time begun() const { return begun_; }
  [[nodiscard]] Duration taken(Time now) const { return now - since_; }
  void stop() { index_ = kNone; }

 private:
  static constexpr std::uint64_t kNone = UINT64_MAX;  // indices have 32 bits

  std::uint64_t index_ = kNone;
  Time since_ = 0;
  Time begun_ = kNever;
  Time requested_at_ = kNever;
  std::uint32_t stamp_ = 0;    // number of the last one that was asked for
  std::uint32_t passing_ = 0;  // messages yet
};

}  // namespace uroce
