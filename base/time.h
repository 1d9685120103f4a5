#pragma once

// Time as the datapath sees it: nanoseconds of a monotonic clock, handed in by the caller. Nothing
// below dataplane/engine reads a clock (time/monotonic_clock.h), so that the simulation can run the
// same code in virtual time.

#include <cstdint>
#include <limits>

namespace uroce {

using Time = std::uint64_t;      // nanoseconds since an arbitrary start
using Duration = std::uint64_t;  // nanoseconds

inline constexpr Time kNever = std::numeric_limits<Time>::max();
inline constexpr Duration kNanosecondsPerMicrosecond = 1'000;
inline constexpr Duration kNanosecondsPerMillisecond = 1'000'000;
inline constexpr Duration kNanosecondsPerSecond = 1'000'000'000;

}  // namespace uroce
