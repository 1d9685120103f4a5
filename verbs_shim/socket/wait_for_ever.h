#pragma once

// What becomes of a thread that waits for events of a channel which another thread closes: Linux
// keeps it in read(2) until the process ends. Programs leave such threads behind (rping does), and
// would take an error for a failure.

#include <unistd.h>

namespace uroce::shim {

// A cancellation point. REQUIRES: the caller holds no lock.
[[noreturn]] inline void wait_for_ever() {
  for (;;) {
    pause();
  }
}

}  // namespace uroce::shim
