#pragma once

// The lock of one queue. Held for a few hundred nanoseconds, so waiting costs less than sleeping;
// but the holder may be descheduled (two cores are common), so a waiter soon gives way.

#include <sched.h>

#include <atomic>

namespace uroce::shim {

class SpinLock {
 public:
  void lock() {
    for (unsigned tries = 0; flag_.test_and_set(std::memory_order_acquire); ++tries) {
      if (tries % kTriesBeforeYield == kTriesBeforeYield - 1) {
        sched_yield();
      } else {
        __builtin_ia32_pause();
      }
    }
  }
  void unlock() { flag_.clear(std::memory_order_release); }

 private:
  static constexpr unsigned kTriesBeforeYield = 64;
  std::atomic_flag flag_ = ATOMIC_FLAG_INIT;  // pairs with itself: unlock's release, lock's acquire
};

}  // namespace uroce::shim
