#pragma once

// What the user chose about congestion control. Set before the first queue
// pair is made; never changed after.

#include <cstdint>

#include "base/time.h"

namespace uroce {

struct CongestionSettings {
  // The receiving end: no more than one congestion notification for a queue pair in this time.
  Duration cnp_interval = 50 * kNanosecondsPerMicrosecond;
  std::uint8_t cnp_dscp = 48;  // of notifications: the class that switches send first
};

inline constexpr std::uint8_t kDscpMax = 63;
inline constexpr Duration kCnpIntervalMax = kNanosecondsPerSecond;

// Of queue pairs that nobody chose anything for, as tests make them.
inline constexpr CongestionSettings kDefaultCongestion{};

}  // namespace uroce
