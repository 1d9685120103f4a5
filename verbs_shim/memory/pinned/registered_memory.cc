#include "verbs_shim/memory/pinned/registered_memory.h"

#include <sys/mman.h>
#include <sys/prctl.h>

#include <cerrno>
#include <mutex>

#include "base/check.h"
#include "base/page.h"
#include "verbs_shim/memory/pinned/pinned_range.h"
#include "verbs_shim/memory/sharing/kernel_calls.h"
#include "verbs_shim/memory/sharing/memory_limit.h"

namespace uroce::shim {
namespace {

constexpr std::uint32_t kOnDemand = 1U << 6U;  // IBV_ACCESS_ON_DEMAND

// A page of an arena is charged to the memory cgroup of the process that touches it first. To
// charge the program, not the daemon, registered pages are populated before the daemon gets them,
// as by a kernel that pins them. If that is impossible, the daemon's access populates them, or
// fails.
void populate(const GrowingArray<MemoryDescription::Range>& ranges) {
  for (const MemoryDescription::Range& range : ranges) {
    int result = 0;
    do {
      result = kernel::madvise(kernel::pointer(range.start), range.length, MADV_POPULATE_WRITE);
    } while (result != 0 && errno == EINTR);
    if (result != 0) {  // a read-only range
      (void)kernel::madvise(kernel::pointer(range.start), range.length, MADV_POPULATE_READ);
    }
  }
}

// Pins the pieces' slots, and notes where these are. False: there is no memory for a note.
// REQUIRES: the state's mutex.
bool pin(SharingState& state, const GrowingArray<abi::MemoryPiece>& pieces,
         GrowingArray<HeldMemory::Place>& places) {
  for (const abi::MemoryPiece& piece : pieces) {
    // Arenas have no slots for on-demand memory; unmapped memory is released at once.
    if (piece.kind == abi::PieceKind::kArena && !state.arenas[piece.source].on_demand()) {
      if (!places.add({.arena = piece.source, .offset = piece.offset, .length = piece.length})) {
        return false;
      }
      state.arenas[piece.source].pins().add(piece.offset, piece.length);
    }
  }
  return true;
}

}  // namespace

OrRefusal<MemoryDescription> describe_memory(std::uint64_t address, std::uint64_t length,
                                             std::uint32_t access, Charging charging) {
  if (length == 0 || address + length < address || address + length + kPage - 1 < address) {
    return Refusal{EINVAL, "the range is empty or wraps around the end of the address space"};
  }
  const bool pinned = (access & kOnDemand) == 0;
  const bool charged = pinned && charging == Charging::kAnew;
  if (charged) {
    if (const DoneOrRefusal charge = charge_locked_memory(address, length); !charge) {
      return charge.error();
    }
  }
  SharingState& state = sharing_state();
  std::unique_lock lock(state.mutex);
  auto description = PinnedRange(state).describe(address, length, access);
  if (!description) {
    if (charged) {
      uncharge_locked_memory(address, length);
    }
    return description;
  }
  if (!pinned) {
    return description;
  }
  HeldMemory& held = description->held;
  if (charged) {
    held.address = address;
    held.length = length;
  }
  const bool pinned_all = pin(state, description->pieces, held.places);
  lock.unlock();
  if (!pinned_all) {
    release_memory(held);
    return Refusal{ENOMEM, kNoHeap};
  }
  populate(description->converted);
  return description;
}

void release_memory(const HeldMemory& held) {
  // Without the mutex, which may be held for long during a conversion.
  const SharingState& state = sharing_state();
  for (const HeldMemory::Place& place : held.places) {
    state.arenas[place.arena].pins().remove(place.offset, place.length);
  }
  if (held.length != 0) {
    uncharge_locked_memory(held.address, held.length);
  }
}

Arena arena(std::uint32_t index) {
  SharingState& state = sharing_state();
  const std::lock_guard lock(state.mutex);
  UROCE_CHECK(index < state.arenas.size());
  return {.descriptor = state.arenas[index].descriptor(),
          .page_size = state.arenas[index].page_size()};
}

void allow_daemon(int daemon_pid) {
  // Fails if there is no Yama; then it isn't needed.
  (void)::prctl(PR_SET_PTRACER, static_cast<unsigned long>(daemon_pid), 0UL, 0UL, 0UL);
}

}  // namespace uroce::shim
