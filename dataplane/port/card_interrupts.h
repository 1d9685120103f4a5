#pragma once

// The descriptor of a card's receive interrupts (an eventfd of VFIO, or /dev/uioN): whether it has
// signalled at all. Some drivers of DPDK hand out one that never does (e1000's 82574, whose
// interrupt for received frames isn't routed).

#include "base/time.h"

namespace uroce {

// Cards collect frames for an interrupt: DPDK lets ixgbe wait for 0.5 ms, e1000 for 16.8.
inline constexpr Duration kInterruptDelayMax = 100 * kNanosecondsPerMillisecond;

// Never blocks.
[[nodiscard]] bool has_signalled(int descriptor);

// Takes back a signal that is there already. Never blocks.
void take_signal(int descriptor);

}  // namespace uroce
