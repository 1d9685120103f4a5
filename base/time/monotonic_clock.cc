#include "base/time/monotonic_clock.h"

#include <ctime>

namespace uroce {

namespace {

std::uint64_t nanoseconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * kNanosecondsPerSecond +
         static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace

Time monotonic_now() { return nanoseconds_of(CLOCK_MONOTONIC); }

Duration thread_processor_time() { return nanoseconds_of(CLOCK_THREAD_CPUTIME_ID); }

}  // namespace uroce
