#pragma once

// Access to memory that can only be reached through /proc/PID/mem, for memory.cc. Nothing here
// touches that memory, since the access may block for ever (mmu/proc_mem/proc_mem_thread.h). Copies
// are handed to the program's helper thread, the role parks, and repeats the operation when they
// are done.
//
// Reading: a copy reads ahead for the following packets of the same message, and the next copy
// starts when half of it is used. Storing: the bytes of a message are collected and copied when
// there are many; the message's last packet is parked until all are stored, so that nothing is
// acknowledged or completed before.

#include <cstddef>
#include <cstdint>

#include "dataplane/qp/memory/memory.h"
#include "mmu/proc_mem/proc_mem_copy.h"
#include "mmu/region.h"

namespace uroce {

// Whether unmapped spans of the region are accessed by a helper thread.
[[nodiscard]] inline bool uses_proc_mem(const MemoryScope& scope, const Region& region) {
  return scope.faults != nullptr && scope.slot != nullptr && region.program() != nullptr;
}

// The bytes of the span, valid until fetched(); nullptr if they aren't here yet (*access:
// kNotResident), or can't be read. `behind`: this many following bytes belong to the same message.
const std::byte* fetch(const MemoryScope& scope, const Region& region, const Span& span,
                       std::uint64_t behind, Access* access);
// The packet has all its bytes: releases what was used up.
void fetched(const MemoryScope& scope);

// Around the stores of a packet, or of a part of one. `more`: others of the same message follow.
Access begin_stores(const MemoryScope& scope);
Access collect(const MemoryScope& scope, const Region& region, const Span& span,
               const std::byte* source);
Access end_stores(const MemoryScope& scope, bool more);

// An atomic on the 8 bytes of the span; `kind` is kCompareSwap or kFetchAdd.
struct ProcMemAtomic {
  ProcMemCopy::Kind kind;
  std::uint64_t compare;
  std::uint64_t operand;  // what is swapped in, or added
};
Access swap_or_add(const MemoryScope& scope, const Region& region, const Span& span,
                   const ProcMemAtomic& atomic, std::uint64_t* original);

// The packet is refused: drops everything kept for it.
void forget_proc_mem(const MemoryScope& scope);

}  // namespace uroce
