#pragma once

// The clock whose time the daemon's threads hand in (time.h).

#include "base/time.h"

namespace uroce {

// CLOCK_MONOTONIC: what programs compare completion timestamps with.
[[nodiscard]] Time monotonic_now();

// How long the calling thread has run. A system call.
[[nodiscard]] Duration thread_processor_time();

}  // namespace uroce
