#pragma once

// A spin lock for the few places where threads share a queue: in the daemon where several workers
// share a receive or completion queue (not taken with one worker), in programs where threads post
// to one queue. Held for some tens, at most a few hundred nanoseconds.

#include <sched.h>

#include <atomic>

#include "base/relax.h"

namespace uroce {

// Back-off while waiting for the holder. The holder may have been preempted, on a machine with few
// cores by the waiting thread itself, so waiting soon yields.
class SpinWait {
 public:
  void wait() {
    if (++spins_ < kSpins) {
      relax_processor();
    } else {
      sched_yield();
    }
  }

 private:
  static constexpr int kSpins = 64;  // about a microsecond
  int spins_ = 0;
};

class SpinLock {
 public:
  void lock() {
    // Acquire pairs with the release of the holder before.
    SpinWait spin;
    while (flag_.test_and_set(std::memory_order_acquire)) {
      spin.wait();
    }
  }
  void unlock() { flag_.clear(std::memory_order_release); }

 private:
  std::atomic_flag flag_ = ATOMIC_FLAG_INIT;
};

// A scoped lock that is only taken if `wanted`.
class [[nodiscard]] LockWhen {
 public:
  LockWhen(bool wanted, SpinLock& lock) : lock_(wanted ? &lock : nullptr) {
    if (lock_ != nullptr) {
      lock_->lock();
    }
  }
  ~LockWhen() {
    if (lock_ != nullptr) {
      lock_->unlock();
    }
  }
  LockWhen(const LockWhen&) = delete;
  LockWhen& operator=(const LockWhen&) = delete;

 private:
  SpinLock* lock_;
};

}  // namespace uroce
