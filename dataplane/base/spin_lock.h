#pragma once

// A lock for the few places where several workers meet (a shared receive queue, a completion queue
// of several queue pairs): held for some tens of nanoseconds, and not taken at all with one worker.

#include <atomic>

namespace uroce {

class [[nodiscard]] LockWhen {
 public:
  LockWhen(bool wanted, std::atomic_flag& flag) : flag_(wanted ? &flag : nullptr) {
    // Acquire pairs with the release in the destructor of the holder before.
    while (flag_ != nullptr && flag_->test_and_set(std::memory_order_acquire)) {
      __builtin_ia32_pause();
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
