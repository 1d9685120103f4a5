#pragma once

// The RNR NAK timer field: how long a requester waits before it retries (IBTA vol. 1, table 45).

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace uroce {

// In units of 10 us. Code 0 is the longest.
inline constexpr std::array<std::uint32_t, 32> kRnrTimer{
    65'536, 1,     2,     3,     4,     6,      8,      12,     16,     24,    32,
    48,     64,    96,    128,   192,   256,    384,    512,    768,    1'024, 1'536,
    2'048,  3'072, 4'096, 6'144, 8'192, 12'288, 16'384, 24'576, 32'768, 49'152};
inline constexpr Duration kRnrTimerUnit = 10 * kNanosecondsPerMicrosecond;

// The code of the shortest wait that isn't below `wait`.
constexpr std::uint8_t rnr_timer_code(Duration wait) {
  for (std::size_t code = 1; code < kRnrTimer.size(); ++code) {
    if (kRnrTimer[code] * kRnrTimerUnit >= wait) {
      return static_cast<std::uint8_t>(code);
    }
  }
  return 0;
}

}  // namespace uroce
