#pragma once

// Which of a queue pair's work requests is being timed: one at a time, as round trips are. So it
// costs a comparison for each of the others, and no time stamp in a work request. There is one
// under way again as soon as anything is found, so little that holds up the queue is missed.
//
// It begins with its post, if the program says when that was (abi/post_stamp.h): it is asked as
// soon as the one before is done, and its next post answers. The answer is the program's word, and
// counts only if the work request was found just now and the time lies between the request for it
// and now; so nonsense spoils no more than the program's own samples, within these bounds. What was
// posted before the request came through, or by a program that knows of none, begins with the turn
// in which it is found.
//
// Of those that a look at the ring finds, another place's is taken each time: the first one would
// always have waited least.
//
// Where many queue pairs are busy each message may be the only one of its queue pair, and would be
// timed; the lines that this touches would then be a fourth of what a message costs. So after each
// that is timed some pass, and the program is asked when it posts once they have.

#include <algorithm>
#include <cstdint>

#include "abi/post_stamp.h"
#include "base/time.h"

namespace uroce {

class MessageTimer {
 public:
  // Messages that pass, where many queue pairs are busy.
  static constexpr std::uint32_t kPassing = 15;

  [[nodiscard]] bool idle() const { return index_ == kNone; }

  // So many were found in the ring. True if they pass.
  [[nodiscard]] bool let_pass(std::uint32_t count) {
    if (passing_ == 0) {
      return false;
    }
    passing_ -= std::min(passing_, count);
    return true;
  }
  // None passes any more: the next one may be asked for its post.
  [[nodiscard]] bool times_next() const { return passing_ == 0; }

  // The number of the stamp that the program is to be asked for.
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
