#pragma once

// Times as connection management's messages and queue pair attributes carry them: 5 bits for
// 4.096 us * 2^code (IBTA vol. 1, 9.9.2.1.1, 12.7). RNR timers have another code
// (dataplane/qp/recovery/rnr_timer.h).

#include <cstdint>

#include "base/time.h"

namespace uroce {

inline constexpr Duration kTimerUnit = 4'096;      // ns
inline constexpr std::uint8_t kTimerCodeMax = 31;  // 2.4 hours

constexpr Duration timer_duration(std::uint8_t code) {
  return kTimerUnit << (code & kTimerCodeMax);
}

}  // namespace uroce
