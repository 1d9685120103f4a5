#include "base/time/monotonic_clock.h"

namespace uroce {

Time read_clock(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * kNanosecondsPerSecond +
         static_cast<std::uint64_t>(now.tv_nsec);
}

Time monotonic_now() { return read_clock(CLOCK_MONOTONIC); }

Duration thread_processor_time() { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

}  // namespace uroce
