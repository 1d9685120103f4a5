#pragma once

// A futex that counts events: who waits for one reads the count, looks, and sleeps until it has
// changed.

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

namespace uroce::shim {

class WakeWord {
 public:
  [[nodiscard]] std::uint32_t count() const { return count_.load(std::memory_order_seq_cst); }
  void wait(std::uint32_t seen) {
    ::syscall(SYS_futex, &count_, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
  }
  void happened() {
    // Sequentially consistent: the count, then the look whether anybody sleeps; the sleeper's other
    // way round is the kernel's.
    count_.fetch_add(1, std::memory_order_seq_cst);
    ::syscall(SYS_futex, &count_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
  }

 private:
  std::atomic<std::uint32_t> count_{0};
};

}  // namespace uroce::shim
