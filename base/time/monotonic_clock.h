#pragma once

// The clock whose time the daemon's threads hand in (time.h), and the others that are read in
// nanoseconds.

#include <ctime>

#include "base/time.h"

namespace uroce {

// CLOCK_MONOTONIC: what programs compare completion timestamps with.
[[nodiscard]] Time monotonic_now();

// Any of the system's clocks.
[[nodiscard]] Time read_clock(clockid_t clock);

// How long the calling thread has run. A system call.
[[nodiscard]] Duration thread_processor_time();

}  // namespace uroce
