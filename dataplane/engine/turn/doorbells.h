#pragma once

// The worker's side of doorbells: takes the slots that a program rang, a bounded number per call.

#include <cstdint>

#include "abi/doorbell.h"

namespace uroce {

// Empty words that one call of take_doorbells() may find below a set bit of an upper level. An
// honest program leaves such a word only in a race of its ringing thread with the worker; each
// costs a locked access to memory.
inline constexpr std::uint32_t kWordsInVainMax = 32;

// Takes up to `max` rung slots into slots[] and returns how many. Further ones stay set, also after
// kWordsInVainMax empty words. Every level is cleared before the one below is read, so a concurrent
// ring is found by this call or by the next. The program may have set any bit: the only guarantee
// is that slots are below kDoorbellSlots.
std::uint32_t take_doorbells(abi::Doorbells& bells, std::uint32_t* slots, std::uint32_t max);

// Pairs, sequentially consistent, with abi::ring, for a worker that has announced its sleep and
// looks once more. A thread that rang before that has set the bit here, or seen it set and not
// taken yet.
[[nodiscard]] inline bool any_doorbells(const abi::Doorbells& bells) {
  return bells.top.load(std::memory_order_seq_cst) != 0;
}

}  // namespace uroce
