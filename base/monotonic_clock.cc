#include "base/monotonic_clock.h"

#include <ctime>

namespace uroce {

Time monotonic_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<Time>(now.tv_sec) * kNanosecondsPerSecond + static_cast<Time>(now.tv_nsec);
}

}  // namespace uroce
