#include "verbs_shim/memory/hooks/memory_calls.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>

#include "base/page.h"
#include "verbs_shim/memory/hooks/arena_runs.h"
#include "verbs_shim/memory/hooks/mapping_change.h"
#include "verbs_shim/memory/hooks/move_mapping.h"
#include "verbs_shim/memory/sharing/kernel_calls.h"

namespace uroce::shim::calls {
namespace {

using abi::InvalidateReason;

// An address unknown elsewhere, for testing whether libc's function is hooked.
char trial;
std::atomic<unsigned> trials{0};  // a counter, needs no ordering

namespace in_kernel {

void* mmap(void* address, std::size_t length, int protection, int flags, int descriptor,
           off_t offset) {
  return kernel::mmap(address, length, protection, flags, descriptor,
                      static_cast<std::uint64_t>(offset));
}

// Variadic as in libc: an interposed function may read its arguments the same way.
void* mremap(void* address, std::size_t old_length, std::size_t new_length, int flags, ...) {
  va_list more;
  va_start(more, flags);
  void* const wanted = va_arg(more, void*);
  va_end(more);
  return kernel::mremap(address, old_length, new_length, flags, wanted);
}

int shmdt(const void* address) { return static_cast<int>(::syscall(SYS_shmdt, address)); }

}  // namespace in_kernel

// Whether the range needs more than the original call. Takes no lock, makes no system call and
// writes nothing. The kernel refuses ranges that wrap, or are beyond the address space.
bool concerns(const void* address, std::uint64_t length) {
  const AddressWatch& watch = sharing_state().watch;
  const std::uint64_t start = kernel::number(address);
  if (start > AddressWatch::kAddressEnd || length > AddressWatch::kAddressEnd - start) {
    return false;
  }
  return watch.announcing() || watch.described(start, start + length);
}

// One run of addresses within madvise.
struct Part {
  std::uint64_t start, end;
  std::uint32_t arena;  // kArenasMax: not in an arena
  std::uint64_t offset;
  std::uint64_t page_size;
  int protection;
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
           .offset = area.offset + (at - area.start),
           .page_size = area.page_size,
           .protection = area.protection};
  return true;
}

constexpr int kGuardInstall = 102;  // MADV_GUARD_INSTALL of Linux 6.13

bool drops(int advice) {
  constexpr int kDontNeedLocked = 24;  // MADV_DONTNEED_LOCKED of Linux 5.18
  return advice == kGuardInstall || advice == MADV_DONTNEED || advice == MADV_FREE ||
         advice == MADV_REMOVE || advice == kDontNeedLocked;
}

// Converts a result like that of empty() and drop_part(): 0 or an errno value.
int result_of(int outcome) { return outcome == 0 ? 0 : errno; }

// Empties memory in an arena. If a fork's child may still need to read the slot, or the program has
// closed the arena, the memory is moved out of the arena instead.
int empty(const SharingState& state, const Change& change, const Part& part) {
  const ArenaFile& arena = state.arenas[part.arena];
  if (!change.forks() && (arena.on_demand() || arena.intact())) {
    return arena.punch(part.offset, part.end - part.start);
  }
  const int huge = part.page_size == kPage ? 0 : MAP_HUGETLB;
  return kernel::mmap(kernel::pointer(part.start), part.end - part.start, part.protection,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | huge, -1, 0) != MAP_FAILED
             ? 0
             : errno;
}

int drop_part(const SharingState& state, const Change& change, const Part& part, int advice) {
  const auto by_kernel = [&] {
    return result_of(next.madvise(kernel::pointer(part.start), part.end - part.start, advice));
  };
  if (part.arena == ArenaList::kArenasMax) {
    return by_kernel();
  }
  if (advice != kGuardInstall) {
    return empty(state, change, part);
  }
  // Guards belong to the mapping. Before Linux 6.15 the kernel supports none in shared memory;
  // memory that is moved out of the arena gets them in its new mapping.
  int error = by_kernel();
  if (error == 0) {
    error = empty(state, change, part);
  }
  return error == 0 ? by_kernel() : error;
}

// Converted memory reads as zeroes after it is dropped, as private memory does: its part of the
// arena is emptied. MADV_FREE permits keeping or dropping pages; they are dropped.
int drop(SharingState& state, const Change& change, int advice) {
  bool hole = false;
  for (std::uint64_t at = change.start(); at < change.end();) {
    Part part;
    if (!part_at(state, change.map(), at, change.end(), &part)) {
      if (change.map().failed()) {
        return next.madvise(kernel::pointer(at), change.end() - at,
                            advice);  // the best available
      }
      hole = true;  // the kernel continues, and reports it afterwards
      MappedArea above;
      if (!change.map().at_or_above(at, &above)) {
        break;
      }
      at = above.start;
      continue;
    }
    if (const int error = drop_part(state, change, part, advice)) {
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

constinit Next next = {.mmap = in_kernel::mmap,
                       .munmap = kernel::munmap,
                       .mremap = in_kernel::mremap,
                       .madvise = kernel::madvise,
                       .mprotect = kernel::mprotect,
                       .shmdt = in_kernel::shmdt,
                       .brk = nullptr};

bool is_reached_by(int (*madvise)(void*, std::size_t, int)) {
  const unsigned before = trials.load(std::memory_order_relaxed);
  madvise(&trial, 0, MADV_DONTNEED);
  return trials.load(std::memory_order_relaxed) != before;
}

void* mmap(void* address, std::size_t length, int protection, int flags, int descriptor,
           off_t offset) {
  const bool replaces = (flags & MAP_FIXED) != 0 && (flags & MAP_FIXED_NOREPLACE) == 0;
  if (!replaces || !concerns(address, length)) {
    return next.mmap(address, length, protection, flags, descriptor, offset);
  }
  Change change(sharing_state(), address, length, InvalidateReason::kUnmap);
  if (!change.described()) {
    return next.mmap(address, length, protection, flags, descriptor, offset);
  }
  const ArenaRuns runs(sharing_state(), change, {change.start(), change.end()});
  void* const result = next.mmap(address, length, protection, flags, descriptor, offset);
  if (result != MAP_FAILED) {
    runs.punch();
    change.forget();
  }
  return result;
}

int munmap(void* address, std::size_t length) {
  if (!concerns(address, length)) {
    return next.munmap(address, length);
  }
  Change change(sharing_state(), address, length, InvalidateReason::kUnmap);
  if (!change.described()) {
    return next.munmap(address, length);
  }
  const ArenaRuns runs(sharing_state(), change, {change.start(), change.end()});
  change.forget();  // before other threads can get these addresses
  const int result = next.munmap(address, length);
  if (result == 0) {
    runs.punch();
  } else {
    change.remember();
  }
  return result;
}

void* mremap(void* address, std::size_t old_length, std::size_t new_length, int flags,
             void* wanted) {
  const bool fixed = (flags & MREMAP_FIXED) != 0;
  if (!fixed) {
    wanted = nullptr;  // independent of the caller's registers
  }
  if (!concerns(address, std::max(old_length, new_length)) &&
      !(fixed && concerns(wanted, new_length))) {
    return next.mremap(address, old_length, new_length, flags, wanted);
  }
  SharingState& state = sharing_state();
  const Change change(state, address, std::max(old_length, new_length), InvalidateReason::kUnmap,
                      fixed ? wanted : nullptr, fixed ? new_length : 0);
  if (!change.described()) {
    return next.mremap(address, old_length, new_length, flags, wanted);
  }
  return move_mapping(state, change,
                      {.address = kernel::number(address),
                       .old_length = old_length,
                       .new_length = new_length,
                       .flags = flags,
                       .wanted = kernel::number(wanted)});
}

int madvise(void* address, std::size_t length, int advice) {
  if (!drops(advice)) {
    return next.madvise(address, length, advice);
  }
  if (address == &trial) {
    trials.fetch_add(1, std::memory_order_relaxed);
    return 0;
  }
  if (!concerns(address, length)) {
    return next.madvise(address, length, advice);
  }
  const Change change(sharing_state(), address, length, InvalidateReason::kDrop);
  const bool plain = !change.described() || kernel::number(address) != change.start();
  return plain ? next.madvise(address, length, advice) : drop(sharing_state(), change, advice);
}

int mprotect(void* address, std::size_t length, int protection) {
  constexpr int kAll = PROT_READ | PROT_WRITE;
  if (!sharing_state().watch.announcing()) {
    return next.mprotect(address, length, protection);
  }
  if ((protection & kAll) == kAll) {
    // A helper that converts the range maps it with the protection that it had before.
    const UnannouncedChange change(sharing_state(), address, length);
    return next.mprotect(address, length, protection);
  }
  const Change change(sharing_state(), address, length, InvalidateReason::kProtect);
  return next.mprotect(address, length, protection);
}

// A segment may have become several areas; they are consecutive and have the same inode.
int shmdt(const void* address) {
  if (!sharing_state().watch.announcing()) {
    return next.shmdt(address);
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
  return next.shmdt(address);
}

int brk(void* address) {
  const std::uint64_t wanted = kernel::number(address);
  if (wanted == 0) {
    return next.brk(address);
  }
  // The kernel unmaps what is between these two, rounded up.
  const auto now = static_cast<std::uint64_t>(::syscall(SYS_brk, nullptr));
  const std::uint64_t first = page_ceil(wanted);
  const std::uint64_t end = page_ceil(now);
  if (first >= end || !concerns(kernel::pointer(first), end - first)) {
    return next.brk(address);
  }
  Change change(sharing_state(), kernel::pointer(first), end - first, InvalidateReason::kUnmap);
  if (!change.described()) {
    return next.brk(address);
  }
  const ArenaRuns runs(sharing_state(), change, {change.start(), change.end()});
  change.forget();
  const int result = next.brk(address);
  if (result == 0) {
    runs.punch();
  } else {
    change.remember();
  }
  return result;
}

}  // namespace uroce::shim::calls
