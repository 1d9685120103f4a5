#pragma once

// Waits of a thread that end as one in read(2) at a device does, in which SA_RESTART decides
// whether a signal ends it.

#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "base/futex.h"

namespace uroce::shim {

// Waits while the word has this value, and may return early. 0, or EINTR when a signal was handled
// without SA_RESTART. A cancellation point. REQUIRES: the caller holds no lock.
inline int wait_while(const std::atomic<std::uint32_t>& word, std::uint32_t value) {
  int before = 0;
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
  errno = 0;
  futex_wait(word, value, FutexScope::kProcess);
  const int error = errno == EINTR ? EINTR : 0;
  pthread_setcanceltype(before, nullptr);
  return error;
}

// Behaviour of a thread that waits for events of a channel which another thread closes: Linux
// leaves it blocked in read(2), where only a signal ends its wait. Programs leave such threads
// behind (rping does), and would treat an error as a failure.
//
// Returns with errno EINTR when a signal was handled without SA_RESTART. A cancellation point.
// REQUIRES: the caller holds no lock.
inline void wait_for_signal() {
  const std::atomic<std::uint32_t> nobody_wakes_me{0};
  while (wait_while(nobody_wakes_me, 0) != EINTR) {
  }
  errno = EINTR;
}

}  // namespace uroce::shim
