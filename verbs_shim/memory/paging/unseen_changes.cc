#include "verbs_shim/memory/paging/unseen_changes.h"

#include <mutex>

#include "verbs_shim/memory/hooks/mapping_change.h"
#include "verbs_shim/memory/sharing/kernel_calls.h"
#include "verbs_shim/memory/sharing/sharing_state.h"

namespace uroce::shim {
namespace {

void announce(SharingState& state, std::uint64_t start, std::uint64_t end) {
  if (start < end) {
    const Change change(state, kernel::pointer(start), end - start, abi::InvalidateReason::kUnmap);
  }
}

// Whether the area maps its own place in an arena, so that the daemon's view is right.
bool in_its_place(const SharingState& state, const MappedArea& area) {
  const std::uint32_t owner = state.arenas.owner_of(area);
  return owner != ArenaList::kArenasMax && state.arenas[owner].on_demand() &&
         ArenaFile::address_of(area.offset) == area.start;
}

}  // namespace

void announce_unseen(std::uint64_t start, std::uint64_t end) {
  SharingState& state = sharing_state();
  if (!state.watch.described(start, end)) {
    return;
  }
  const std::lock_guard lock(state.mutex);  // so no helper is working on a range
  std::uint64_t unsure = start;
  MappedArea area;
  for (std::uint64_t at = start; at < end; at = area.end) {
    if (!state.map.at_or_above(at, &area) || area.start >= end) {
      break;
    }
    if (in_its_place(state, area)) {
      announce(state, unsure, area.start);
      unsure = area.end;
    }
  }
  announce(state, unsure, end);
}

}  // namespace uroce::shim
