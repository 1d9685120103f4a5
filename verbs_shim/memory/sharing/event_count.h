#pragma once

// An eventcount on a futex: a waiter reads the count, checks its condition, and sleeps until the
// count has changed. Signalling without sleepers costs no system call.

#include <atomic>
#include <cstdint>

#include "base/futex.h"

namespace uroce::shim {

class EventCount {
 public:
  [[nodiscard]] std::uint32_t count() const { return count_.load(std::memory_order_seq_cst); }
  void wait(std::uint32_t seen) {
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    futex_wait(count_, seen, FutexScope::kProcess);
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
  }
  void happened() {
    // Sequentially consistent: the count, then the check for sleepers; a sleeper registers first,
    // and the kernel compares the count afterwards.
    count_.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) != 0) {
      futex_wake(count_, FutexScope::kProcess);
    }
  }
  // For a fork's child, where no thread sleeps.
  void reset() { sleepers_.store(0, std::memory_order_relaxed); }

 private:
  std::atomic<std::uint32_t> count_{0};
  std::atomic<std::uint32_t> sleepers_{0};
};

}  // namespace uroce::shim
