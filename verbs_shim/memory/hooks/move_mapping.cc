#include "verbs_shim/memory/hooks/move_mapping.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "base/page.h"
#include "verbs_shim/memory/hooks/arena_runs.h"
#include "verbs_shim/memory/hooks/memory_calls.h"
#include "verbs_shim/memory/sharing/kernel_calls.h"

namespace uroce::shim {
namespace {

void* fail(int error) {
  errno = error;
  return MAP_FAILED;
}

// The contents of the old range.
struct Survey {
  bool whole = true;           // without holes
  bool converted = false;      // part of it is in an arena
  bool on_demand = false;      // part of it is in an on-demand region
  bool huge = false;           // of huge pages
  int protection = PROT_NONE;  // of its last mapping
};

Survey survey(const SharingState& state, MemoryMap& map, std::uint64_t start, std::uint64_t end) {
  Survey result;
  MappedArea area;
  for (std::uint64_t at = start; at < end; at = area.end) {
    const bool found = map.at_or_above(at, &area) && area.start < end;
    result.whole = result.whole && found && area.start <= at;
    if (!found) {
      if (map.failed()) {  // it was described before, so the worst case is assumed
        result.converted = true;
        result.on_demand = true;
      }
      return result;
    }
    const std::uint32_t owner = state.arenas.owner_of(area);
    if (owner != ArenaList::kArenasMax) {
      result.converted = true;
      result.on_demand = result.on_demand || state.arenas[owner].on_demand();
    }
    result.huge = result.huge || area.page_size != kPage;
    result.protection = area.protection;
  }
  return result;
}

// Fresh private memory, none of it converted yet.
bool map_private(std::uint64_t start, std::uint64_t length, int protection, int how) {
  return length == 0 || kernel::mmap(kernel::pointer(start), length, protection,
                                     MAP_PRIVATE | MAP_ANONYMOUS | how, -1, 0) != MAP_FAILED;
}

// Moves each mapping of the old range to its place in the new one, which is reserved. Returns the
// number of bytes moved.
std::uint64_t move_each(MemoryMap& map, std::uint64_t start, std::uint64_t end,
                        std::uint64_t target) {
  MappedArea area;
  for (std::uint64_t at = start; at < end;) {
    if (!map.at_or_above(at, &area) || area.start > at) {
      return at - start;
    }
    const std::uint64_t length = std::min(end, area.end) - at;
    if (kernel::mremap(kernel::pointer(at), length, length, MREMAP_MAYMOVE | MREMAP_FIXED,
                       kernel::pointer(target + (at - start))) == MAP_FAILED) {
      return at - start;
    }
    at += length;
  }
  return end - start;
}

// Notifies another library that has hooked mremap by a call that changes nothing.
void notify_mremap_hooks(const Move& move) {
  const int error = errno;
  calls::next.mremap(kernel::pointer(move.address), move.old_length, move.old_length, 0, nullptr);
  errno = error;
}

void* move_away(SharingState& state, const Change& change, const Move& move,
                std::uint64_t old_length, std::uint64_t new_length, const Survey& found) {
  const std::uint64_t kept = std::min(old_length, new_length);
  const bool fixed = (move.flags & MREMAP_FIXED) != 0;
  void* const target =
      kernel::mmap(fixed ? kernel::pointer(move.wanted) : nullptr, new_length, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (fixed ? MAP_FIXED : 0), -1, 0);
  if (target == MAP_FAILED) {
    return MAP_FAILED;
  }
  const std::uint64_t start = kernel::number(target);
  const ArenaRuns cut(state, change, {move.address + kept, move.address + old_length});
  if (found.on_demand) {
    ArenaFile::next_generation();
  }
  state.watch.mark(start, start + new_length);  // it contains converted memory now
  const std::uint64_t moved = move_each(change.map(), move.address, move.address + kept, start);
  if (moved != kept || !map_private(start + kept, new_length - kept, found.protection, MAP_FIXED)) {
    move_each(change.map(), start, start + moved, move.address);
    kernel::munmap(target, new_length);
    return fail(ENOMEM);
  }
  if ((move.flags & MREMAP_DONTUNMAP) != 0) {
    map_private(move.address, old_length, found.protection, MAP_FIXED);
  } else if (old_length > kept) {
    kernel::munmap(kernel::pointer(move.address + kept), old_length - kept);
    cut.punch();
  }
  return target;
}

// Moves mappings that the kernel itself can move: huge pages, and from Linux 6.17 on ranges with
// holes. If it fails, it may have moved a part.
void* move_by_kernel(SharingState& state, const Move& move, const Survey& found) {
  const bool fixed = (move.flags & MREMAP_FIXED) != 0;
  if (found.converted && fixed) {
    state.watch.mark(move.wanted, move.wanted + move.new_length);
  }
  void* const result =
      calls::next.mremap(kernel::pointer(move.address), move.old_length, move.new_length,
                         move.flags, kernel::pointer(move.wanted));
  const std::uint64_t moved_to = kernel::number(result);
  if (found.converted && result != MAP_FAILED) {
    state.watch.mark(moved_to, moved_to + move.new_length);
  }
  const bool moved = result == MAP_FAILED ? fixed : moved_to != move.address;
  if (found.on_demand && moved) {
    ArenaFile::next_generation();
  }
  return result;
}

// The lengths in whole pages.
void* move_found(SharingState& state, const Change& change, const Move& move,
                 std::uint64_t old_length, std::uint64_t new_length, const Survey& found) {
  if (!found.whole || !found.converted || found.huge) {
    return move_by_kernel(state, move, found);
  }
  notify_mremap_hooks(move);
  const std::uint64_t end = move.address + old_length;
  const bool stays = (move.flags & (MREMAP_FIXED | MREMAP_DONTUNMAP)) == 0;
  if (stays && new_length <= old_length) {
    const ArenaRuns runs(state, change, {move.address + new_length, end});
    if (new_length < old_length &&
        kernel::munmap(kernel::pointer(move.address + new_length), old_length - new_length) != 0) {
      return MAP_FAILED;
    }
    runs.punch();
    return kernel::pointer(move.address);
  }
  if (stays && map_private(end, new_length - old_length, found.protection, MAP_FIXED_NOREPLACE)) {
    return kernel::pointer(move.address);
  }
  return (move.flags & MREMAP_MAYMOVE) == 0
             ? fail(ENOMEM)
             : move_away(state, change, move, old_length, new_length, found);
}

}  // namespace

void* move_mapping(SharingState& state, const Change& change, const Move& move) {
  const std::uint64_t old_length = page_ceil(move.old_length);
  const std::uint64_t new_length = page_ceil(move.new_length);
  const std::uint64_t end = move.address + old_length;
  const bool sane = move.address % kPage == 0 && old_length != 0 && new_length != 0 &&
                    move.wanted % kPage == 0 && end > move.address &&
                    end <= AddressWatch::kAddressEnd && new_length < AddressWatch::kAddressEnd;
  const bool fixed = (move.flags & MREMAP_FIXED) != 0;
  const bool apart = !fixed || move.wanted + new_length <= move.address || end <= move.wanted;
  if (!sane || !apart || (move.flags & MREMAP_MAYMOVE) < (fixed ? MREMAP_MAYMOVE : 0)) {
    return move_by_kernel(state, move, {});
  }
  const Survey found = survey(state, change.map(), move.address, end);
  const ArenaRuns covered(state, change, change.covered());
  void* const result = move_found(state, change, move, old_length, new_length, found);
  if (result != MAP_FAILED && found.whole) {  // existing mappings at the places of the holes stay
    covered.punch();
  }
  return result;
}

}  // namespace uroce::shim
