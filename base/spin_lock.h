#pragma once

// A lock for the few places where several workers meet (a shared receive queue, a completion queue
// of several queue pairs): held for some tens of nanoseconds, and not taken at all with one worker.

#include <sched.h>

#include <atomic>

namespace uroce {

// Waiting for somebody who is about to be done. He may have been preempted, on a machine with few
// cores by whoever waits, so waiting soon yields.
class SpinWait {
 public:
  void wait() {
    if (++spins_ < kSpins) {
      __builtin_ia32_pause();
    } else {
      sched_yield();
    }
  }

 private:
  static constexpr int kSpins = 64;  // about a microsecond
  int spins_ = 0;
};

class [[nodiscard]] LockWhen {
 public:
  LockWhen(bool wanted, std::atomic_flag& flag) : flag_(wanted ? &flag : nullptr) {
    // Acquire pairs with the release in the destructor of the holder before.
    SpinWait spin;
    while (flag_ != nullptr && flag_->test_and_set(std::memory_order_acquire)) {
      spin.wait();
    }
  }
  ~LockWhen() {
    if (flag_ != nullptr) {
      flag_->clear(std::memory_order_release);
    }
  }
  LockWhen(const LockWhen&) = delete;
  LockWhen& operator=(const LockWhen&) = delete;

 private:
  std::atomic_flag* flag_;
};

}  // namespace uroce
