#pragma once

// Behaviour of a thread that waits for events of a channel which another thread closes: Linux
// leaves it blocked in read(2), where only a signal ends its wait. Programs leave such threads
// behind (rping does), and would treat an error as a failure.

#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "base/futex.h"

namespace uroce::shim {

// Returns with errno EINTR when a signal was handled without SA_RESTART. A cancellation point.
// REQUIRES: the caller holds no lock.
inline void wait_for_signal() {
  int before = 0;
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
  const std::atomic<std::uint32_t> nobody_wakes_me{0};
  do {
    errno = 0;
    futex_wait(nobody_wakes_me, 0, FutexScope::kProcess);
  } while (errno != EINTR);
  pthread_setcanceltype(before, nullptr);
  errno = EINTR;
}

}  // namespace uroce::shim
