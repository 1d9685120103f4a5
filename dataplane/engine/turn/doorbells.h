#pragma once

// The worker's side of doorbells: takes the slots that a program rang, a bounded number a turn.

#include <cstdint>

#include "abi/doorbell.h"

namespace uroce {

// Words of a session that a call of take_doorbells() may find without a bell. An honest program
// leaves such a one only where its ringer and the worker meet; each is a locked access to memory.
inline constexpr std::uint32_t kWordsInVainMax = 32;

// Takes up to `max` rung slots into slots[] and returns how many. Those beyond stay rung, also
// where kWordsInVainMax words had none. Every level is cleared before the one below is read, so a
// ring that comes meanwhile is found by this call or by the next. The program may have set any bit:
// slots are below kDoorbellSlots, no more.
std::uint32_t take_doorbells(abi::Doorbells& bells, std::uint32_t* slots, std::uint32_t max);

// Pairs, sequentially consistent, with abi::ring: for a worker that has said that it sleeps and
// looks once more. Who rang before that has set the bit here, or seen it set and not taken yet.
[[nodiscard]] inline bool any_doorbells(const abi::Doorbells& bells) {
  return bells.top.load(std::memory_order_seq_cst) != 0;
}

}  // namespace uroce
