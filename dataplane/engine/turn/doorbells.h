#pragma once

// The worker's side of doorbells: takes the slots that a program rang, a bounded number per call.

#include <cstdint>

#include "abi/doorbell.h"

namespace uroce {

// Bits of Doorbells::top that one call of take_doorbells() may find set with nothing below. An
// honest program leaves such a bit only in a race of its ringing thread with the worker; each costs
// the load of three cache lines, or up to 16 exchanges if the program clears its words meanwhile.
inline constexpr std::uint32_t kBitsInVainMax = 8;

// Takes up to `max` rung slots into slots[] and returns how many. Further ones stay set, also after
// kBitsInVainMax bits with nothing below. A bit of `top` is cleared before its words are read, so a
// concurrent ring is found by this call or by the next. The program may have set any bit: the only
// guarantee is that slots are below kDoorbellSlots.
std::uint32_t take_doorbells(abi::Doorbells& bells, std::uint32_t* slots, std::uint32_t max);

// Pairs, sequentially consistent, with abi::ring, for a worker that has announced its sleep and
// looks once more. A thread that rang before that has set the bit here, or seen it set and not
// taken yet.
[[nodiscard]] inline bool any_doorbells(const abi::Doorbells& bells) {
  return bells.top.load(std::memory_order_seq_cst) != 0;
}

}  // namespace uroce
