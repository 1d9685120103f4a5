#pragma once

// The two system calls of a futex: a word at which threads sleep as long as it has a value.

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <ctime>

#include "base/time.h"

namespace uroce {

enum class FutexScope : std::uint8_t {
  kProcess,  // of threads of one process
  kShared,   // the word is in memory that several processes map
};

constexpr int futex_operation(int operation, FutexScope scope) {
  return scope == FutexScope::kProcess ? operation | FUTEX_PRIVATE_FLAG : operation;
}

// Sleeps until it is woken, if the word has this value, but not longer than `longest` (kNever: as
// long as it takes). May return early. Not a cancellation point. Changes errno.
inline void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t value,
                       FutexScope scope, Duration longest = kNever) {
  const timespec limit{.tv_sec = static_cast<time_t>(longest / kNanosecondsPerSecond),
                       .tv_nsec = static_cast<long>(longest % kNanosecondsPerSecond)};
  ::syscall(SYS_futex, &word, futex_operation(FUTEX_WAIT, scope), value,
            longest == kNever ? nullptr : &limit, nullptr, 0);
}

// Wakes so many at most of those who sleep there. Uses the word's address only: it may be gone.
inline void futex_wake(const std::atomic<std::uint32_t>& word, FutexScope scope,
                       int threads_max = INT_MAX) {
  ::syscall(SYS_futex, &word, futex_operation(FUTEX_WAKE, scope), threads_max, nullptr, nullptr, 0);
}

}  // namespace uroce
