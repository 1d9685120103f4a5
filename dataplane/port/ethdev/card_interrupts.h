#pragma once

// The descriptor of a card's receive interrupts (an eventfd of VFIO, or /dev/uioN): whether it has
// signalled. Some drivers of DPDK hand out one that never does (e1000's 82574, whose
// interrupt for received frames isn't routed).

#include "base/time.h"

namespace uroce {

// Cards collect frames for an interrupt: DPDK lets ixgbe wait for 0.5 ms, e1000 for 16.8.
inline constexpr Duration kInterruptDelayMax = 100 * kNanosecondsPerMillisecond;

// Whether it has signalled since the last call. Doesn't block as long as nobody else reads it.
bool take_signal(int descriptor);

}  // namespace uroce
