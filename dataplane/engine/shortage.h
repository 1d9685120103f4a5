#pragma once

// Whether a worker is short of a processor: it has much to do, and others run in its place. Asked
// of two clocks, the wall's and the thread's own: of the time that it didn't sleep it should have
// run nearly all. A worker that finds little to do offers the processor to others all the time,
// which looks the same; so most of its time must have gone by in turns that did something.

#include "base/time.h"

namespace uroce {

class Shortage {
 public:
  // Awake, so long at least, before it is judged.
  static constexpr Duration kPeriod = 4 * kNanosecondsPerMillisecond;
  // It didn't run for this part of a period: a shortage. With a quarter, two udp ports at their
  // most on two processors, beside the program that posts, were right at the limit.
  static constexpr Duration kPart = 8;
  // It is taken to last so much longer, or what ends it would bring it back at once.
  static constexpr Duration kHold = 100 * kNanosecondsPerMillisecond;

  // The worker goes to sleep. How long it slept is known when the next turn begins.
  void sleeps(Time now) {
    asleep_ = true;
    asleep_since_ = now;
  }

  // A turn begins: whether the worker is short of a processor. `busy`: the turn before did
  // something. `ran` tells how long the thread ran since it began; it is asked once a period.
  template <typename Ran>
  [[nodiscard]] bool turn_begins(Time now, bool busy, Ran&& ran) {
    busy_ += busy ? now - turn_began_ : 0;
    turn_began_ = now;
    if (asleep_) {
      asleep_ = false;
      slept_ += now - asleep_since_;
    }
    if (now - begun_ - slept_ >= kPeriod) [[unlikely]] {
      judge(now, ran());
    }
    return now < until_;
  }

 private:
  void judge(Time now, Duration ran) {
    const Duration awake = now - begun_ - slept_;
    const bool is_first = begun_ == 0;
    if (!is_first && busy_ > awake / 2 && awake - awake / kPart > ran - ran_) {
      until_ = now + kHold;
    }
    begun_ = now;
    slept_ = 0;
    busy_ = 0;
    ran_ = ran;
  }

  Time turn_began_ = 0;
  Time begun_ = 0;      // of this period; 0: there was none yet
  Duration slept_ = 0;  // in this period
  Duration busy_ = 0;   // in this period
  Duration ran_ = 0;    // before this period
  bool asleep_ = false;
  Time asleep_since_ = 0;
  Time until_ = 0;  // of the last shortage
};

}  // namespace uroce
