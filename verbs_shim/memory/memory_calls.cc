#include "verbs_shim/memory/memory_calls.h"

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "verbs_shim/memory/change.h"
#include "verbs_shim/memory/kernel_calls.h"
#include "verbs_shim/memory/move_mapping.h"

namespace uroce::shim::calls {
namespace {

using control::InvalidateReason;

// Relaxed: the first region on demand exists only after it was set, and a call that was made before
// can't concern it.
std::atomic<bool> announcing{false};

bool quiet() { return !announcing.load(std::memory_order_relaxed); }

// One run of addresses within madvise: of an arena, or not.
struct Part {
  std::uint64_t start, end;
  std::uint32_t arena;
  std::uint64_t offset;
};

// The part that begins at `at`. False: nothing is mapped there.
bool part_at(const SharingState& state, MemoryMap& map, std::uint64_t at, std::uint64_t end,
             Part* part) {
  MappedArea area;
  if (!map.at_or_above(at, &area) || area.start > at) {
    return false;
  }
  *part = {.start = at,
           .end = std::min(end, area.end),
           .arena = state.arenas.owner_of(area),
           .offset = area.offset + (at - area.start)};
  return true;
}

bool drops(int advice) {
  constexpr int kDontNeedLocked = 24;  // MADV_DONTNEED_LOCKED of Linux 5.18
  return advice == MADV_DONTNEED || advice == MADV_FREE || advice == MADV_REMOVE ||
         advice == kDontNeedLocked;
}

// Private memory that was converted reads as zeroes after it was dropped, as it would have before:
// its place in the arena is emptied. Free pages may be kept or dropped; they are dropped.
int drop(SharingState& state, std::uint64_t start, std::uint64_t end, int advice) {
  MemoryMap map;
  bool hole = false;
  for (std::uint64_t at = start; at < end;) {
    Part part;
    if (!part_at(state, map, at, end, &part)) {
      hole = true;  // the kernel goes on, and tells afterwards
      MappedArea next;
      if (!map.at_or_above(at, &next)) {
        break;
      }
      at = next.start;
      continue;
    }
    int error = 0;
    if (part.arena != ArenaList::kArenasMax) {
      error = state.arenas[part.arena].punch(part.offset, part.end - part.start);
    } else if (kernel::madvise(kernel::pointer(part.start), part.end - part.start, advice) != 0) {
      error = errno;
    }
    if (error != 0) {
      errno = error;
      return -1;
    }
    at = part.end;
  }
  if (hole) {
    errno = ENOMEM;
    return -1;
  }
  return 0;
}

}  // namespace

void start_announcing() { announcing.store(true, std::memory_order_seq_cst); }
bool is_announcing() { return !quiet(); }
void stop_announcing() { announcing.store(false, std::memory_order_seq_cst); }

void* mmap(void* address, std::size_t length, int protection, int flags, int descriptor,
           off_t offset) {
  const auto place = static_cast<std::uint64_t>(offset);
  const bool replaces = (flags & MAP_FIXED) != 0 && (flags & MAP_FIXED_NOREPLACE) == 0;
  if (quiet() || !replaces) {
    return kernel::mmap(address, length, protection, flags, descriptor, place);
  }
  Change change(sharing_state(), address, length, InvalidateReason::kUnmap);
  if (!change.described()) {
    return kernel::mmap(address, length, protection, flags, descriptor, place);
  }
  const ArenaRuns runs(sharing_state(), change.start(), change.end());
  void* const result = kernel::mmap(address, length, protection, flags, descriptor, place);
  if (result != MAP_FAILED) {
    runs.punch();
    change.forget();
  }
  return result;
}

int munmap(void* address, std::size_t length) {
  if (quiet()) {
    return kernel::munmap(address, length);
  }
  Change change(sharing_state(), address, length, InvalidateReason::kUnmap);
  if (!change.described()) {
    return kernel::munmap(address, length);
  }
  const ArenaRuns runs(sharing_state(), change.start(), change.end());
  change.forget();  // before other threads can have these addresses
  const int result = kernel::munmap(address, length);
  if (result == 0) {
    runs.punch();
  } else {
    change.remember();
  }
  return result;
}

void* mremap(void* address, std::size_t old_length, std::size_t new_length, int flags,
             void* wanted) {
  if (quiet()) {
    return kernel::mremap(address, old_length, new_length, flags, wanted);
  }
  if ((flags & MREMAP_FIXED) == 0) {
    wanted = nullptr;  // whatever the caller's registers held
  }
  SharingState& state = sharing_state();
  const Change change(state, address, std::max(old_length, new_length), InvalidateReason::kUnmap,
                      wanted, (flags & MREMAP_FIXED) != 0 ? new_length : 0);
  if (!change.described()) {
    return kernel::mremap(address, old_length, new_length, flags, wanted);
  }
  const ArenaRuns covered(state, change.covered().start, change.covered().end);
  void* const result = move_mapping(state, {.address = kernel::number(address),
                                            .old_length = old_length,
                                            .new_length = new_length,
                                            .flags = flags,
                                            .wanted = kernel::number(wanted)});
  if (result != MAP_FAILED) {
    covered.punch();
  }
  return result;
}

int madvise(void* address, std::size_t length, int advice) {
  if (quiet() || !drops(advice)) {
    return kernel::madvise(address, length, advice);
  }
  const Change change(sharing_state(), address, length, InvalidateReason::kDrop);
  const bool plain = !change.described() || kernel::number(address) != change.start();
  return plain ? kernel::madvise(address, length, advice)
               : drop(sharing_state(), change.start(), change.end(), advice);
}

int mprotect(void* address, std::size_t length, int protection) {
  constexpr int kAll = PROT_READ | PROT_WRITE;
  if (quiet() || (protection & kAll) == kAll) {
    return kernel::mprotect(address, length, protection);
  }
  const Change change(sharing_state(), address, length, InvalidateReason::kProtect);
  return kernel::mprotect(address, length, protection);
}

// A segment may have become several areas; they follow each other with the same inode.
int shmdt(const void* address) {
  const auto detach = [&] { return static_cast<int>(::syscall(SYS_shmdt, address)); };
  if (quiet()) {
    return detach();
  }
  MemoryMap map;
  MappedArea area;
  const std::uint64_t start = kernel::number(address);
  std::uint64_t end = start;
  std::uint64_t inode = 0;
  while (map.at_or_above(end, &area) && area.start == end &&
         (end == start || area.inode == inode)) {
    inode = area.inode;
    end = area.end;
  }
  const Change change(sharing_state(), address, end - start, InvalidateReason::kUnmap);
  return detach();
}

int brk(void* address, int (*original)(void*)) {
  if (quiet()) {
    return original(address);
  }
  const auto now = static_cast<std::uint64_t>(::syscall(SYS_brk, nullptr));
  const std::uint64_t wanted = kernel::number(address);
  if (wanted == 0 || wanted >= now) {
    return original(address);
  }
  Change change(sharing_state(), address, now - wanted, InvalidateReason::kUnmap);
  if (!change.described()) {
    return original(address);
  }
  const ArenaRuns runs(sharing_state(), (wanted + 4095) / 4096 * 4096, change.end());
  change.forget();
  const int result = original(address);
  if (result == 0) {
    runs.punch();
  } else {
    change.remember();
  }
  return result;
}

}  // namespace uroce::shim::calls
