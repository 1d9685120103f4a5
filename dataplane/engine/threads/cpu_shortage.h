#pragma once

// Detects whether a worker shares its processor with other threads, from two clocks: the wall clock
// and the thread's CPU clock. While it was awake the thread should have run nearly all the time. (A
// hypervisor that takes the processor away looks the same, but doesn't cause context switches.) The
// worker is short of a processor if it also has much to do: a worker that has little to do yields
// or sleeps most of the time anyway, so most of the period must have been spent in turns that did
// something.

#include "base/time.h"

namespace uroce {

class CpuShortage {
 public:
  // The resource usage of the worker's thread since it began.
  struct Usage {
    Duration ran = 0;
    std::uint64_t displaced = 0;  // involuntary context switches
  };

  // The evaluation period; counts only time awake.
  static constexpr Duration kPeriod = 4 * kNanosecondsPerMillisecond;
  // A shortage: it didn't run for one kPart-th of a period. (With a quarter, two udp ports at full
  // load on two processors, plus the posting program, were right at the limit.)
  static constexpr Duration kPart = 8;
  // A shared processor: it didn't run for one kPartShared-th of two periods in a row. Interrupts
  // and kernel threads take less.
  static constexpr Duration kPartShared = 16;
  // How long a shortage is assumed to last; otherwise it would return as soon as the
  // countermeasures end.
  static constexpr Duration kHold = 100 * kNanosecondsPerMillisecond;
  // The same for a shared processor. A thread that sleeps as soon as it is idle is seldom
  // displaced, so meanwhile it can't be observed whether the processor is still shared.
  static constexpr Duration kHoldShared = 1 * kNanosecondsPerSecond;

  // The worker goes to sleep. How long it slept is known when the next turn begins.
  void sleeps(Time now) {
    asleep_ = true;
    asleep_since_ = now;
  }

  // A turn begins. Returns whether the worker is short of a processor. `busy`: the previous turn
  // did something. `usage` returns the thread's usage; called once per period.
  template <typename AskUsage>
  [[nodiscard]] bool turn_begins(Time now, bool busy, AskUsage&& usage) {
    busy_ += busy ? now - turn_began_ : 0;
    turn_began_ = now;
    if (asleep_) {
      asleep_ = false;
      slept_ += now - asleep_since_;
    }
    if (now - begun_ - slept_ >= kPeriod) [[unlikely]] {
      evaluate(now, usage());
    }
    return now < until_;
  }

  // Whether other threads share its processor.
  [[nodiscard]] bool shares(Time now) const { return now < shared_until_; }

 private:
  void evaluate(Time now, const Usage& usage) {
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
  Time begun_ = 0;      // start of this period; 0: none yet
  Duration slept_ = 0;  // in this period
  Duration busy_ = 0;   // in this period
  Usage usage_;         // at the start of this period
  bool asleep_ = false;
  Time asleep_since_ = 0;
  Time until_ = 0;         // end of the last shortage
  bool shared_ = false;    // in the previous period
  Time shared_until_ = 0;  // assumed end of sharing
};

}  // namespace uroce
