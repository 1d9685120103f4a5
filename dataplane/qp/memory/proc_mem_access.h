#pragma once

// Memory that has to be reached the slow way, as memory.cc uses it: nobody here touches it, since
// whoever does may wait for ever (mmu/proc_mem/proc_mem_thread.h). Copies set off to the program's
// helper thread, the role parks, and does the same again when they are back.
//
// Reading: a copy brings more than the packet in hand needs, for those that follow in the same
// message, and the next one sets off when half of it is used. Storing: bytes of a message are
// collected, set off when there are many, and the message's last packet is parked until all of them
// are stored, so that nothing is answered or completed before.

#include <cstddef>
#include <cstdint>

#include "dataplane/qp/memory/memory.h"
#include "mmu/proc_mem/proc_mem_copy.h"
#include "mmu/region.h"

namespace uroce {

// Whether a helper goes to the spans of the region that aren't mapped.
[[nodiscard]] inline bool uses_proc_mem(const MemoryScope& scope, const Region& region) {
  return scope.faults != nullptr && scope.slot != nullptr && region.program() != nullptr;
}

// The bytes of the span, valid until fetched(); nullptr if they aren't here (*access:
// kNotResident), or can't be. `behind`: so many bytes behind them belong to the same message.
const std::byte* fetch(const MemoryScope& scope, const Region& region, const Span& span,
                       std::uint64_t behind, Access* access);
// The packet has all that it needs: what was used up is let go.
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

// The packet is refused: nothing of it, or for it, is kept.
void forget_proc_mem(const MemoryScope& scope);

}  // namespace uroce
