#pragma once

// Whether a worker shares its processor: others run in its place. Asked of two clocks, the wall's
// and the thread's own: of the time that it didn't sleep it should have run nearly all. A
// hypervisor that takes the processor looks the same, but puts no other thread in its place. It is
// short of a processor if it has much to do besides: who finds little to do offers the processor to
// others all the time, or sleeps, so most of all time must have gone by in turns that did
// something.

#include "base/time.h"

namespace uroce {

class CpuShortage {
 public:
  // What the worker's thread knows since it began.
  struct Usage {
    Duration ran = 0;
    std::uint64_t displaced = 0;  // times that another took its place while it was ready to run
  };

  // Awake, so long at least, before it is judged.
  static constexpr Duration kPeriod = 4 * kNanosecondsPerMillisecond;
  // It didn't run for this part of a period: a shortage. With a quarter, two udp ports at their
  // most on two processors, beside the program that posts, were right at the limit.
  static constexpr Duration kPart = 8;
  // For this part of two periods in a row: it shares one. What interrupts and the kernel's own
  // threads take is less.
  static constexpr Duration kPartShared = 16;
  // It is taken to last so much longer, or what ends it would bring it back at once.
  static constexpr Duration kHold = 100 * kNanosecondsPerMillisecond;
  // The same of a shared processor. Who sleeps as soon as there is nothing to do is seldom kept
  // from running, so meanwhile nothing tells whether others still run there.
  static constexpr Duration kHoldShared = 1 * kNanosecondsPerSecond;

  // The worker goes to sleep. How long it slept is known when the next turn begins.
  void sleeps(Time now) {
    asleep_ = true;
    asleep_since_ = now;
  }

  // A turn begins: whether the worker is short of a processor. `busy`: the turn before did
  // something. `usage` returns that of the thread; it is asked once a period.
  template <typename AskUsage>
  [[nodiscard]] bool turn_begins(Time now, bool busy, AskUsage&& usage) {
    busy_ += busy ? now - turn_began_ : 0;
    turn_began_ = now;
    if (asleep_) {
      asleep_ = false;
      slept_ += now - asleep_since_;
    }
    if (now - begun_ - slept_ >= kPeriod) [[unlikely]] {
      judge(now, usage());
    }
    return now < until_;
  }

  // Whether others run in its place.
  [[nodiscard]] bool shares(Time now) const { return now < shared_until_; }

 private:
  void judge(Time now, const Usage& usage) {
    const Duration awake = now - begun_ - slept_;
    const auto missed = [&](Duration part) {
      return awake - awake / part > usage.ran - usage_.ran && usage.displaced != usage_.displaced;
    };
    const bool is_first = begun_ == 0;
    const bool shares = !is_first && missed(kPartShared);
    if (shares && shared_) {
      shared_until_ = now + kHoldShared;
    }
    shared_ = shares;
    if (!is_first && missed(kPart) && busy_ > (now - begun_) / 2) {
      until_ = now + kHold;
    }
    begun_ = now;
    slept_ = 0;
    busy_ = 0;
    usage_ = usage;
  }

  Time turn_began_ = 0;
  Time begun_ = 0;      // of this period; 0: there was none yet
  Duration slept_ = 0;  // in this period
  Duration busy_ = 0;   // in this period
  Usage usage_;         // before this period
  bool asleep_ = false;
  Time asleep_since_ = 0;
  Time until_ = 0;         // of the last shortage
  bool shared_ = false;    // in the period before
  Time shared_until_ = 0;  // as far as is known
};

}  // namespace uroce
