#include "verbs_shim/memory/sharing/memory_kind.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "base/page.h"
#include "base/unique_fd.h"

namespace uroce::shim {
namespace {

constexpr std::uint64_t kThreadHeap = 64ULL << 20U;  // HEAP_MAX_SIZE of glibc

// The main thread's control block is somewhere in private memory; those of others are in their
// stacks. The kernel writes there when it switches threads, and kills the program if it can't,
// which would be the case for a moment during conversion without privilege.
struct Block {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
} main_thread_block;

// The address of a thread's list of robust mutexes, which is in its control block; 0: unknown.
std::uint64_t robust_list_of(pid_t thread) {
  void* head = nullptr;
  std::size_t length = 0;
  return ::syscall(SYS_get_robust_list, thread, &head, &length) == 0
             ? reinterpret_cast<std::uintptr_t>(head)
             : 0;
}

__attribute__((constructor)) void find_main_thread() {
  constexpr std::uint64_t kBytes = 4096;  // struct pthread of glibc has 2304
  if (const std::uint64_t at = main_thread_control_block()) {
    main_thread_block = {.start = page_floor(at), .end = page_ceil(at + kBytes)};
  }
}

// Whether the page is a guard installed in a mapping (MADV_GUARD_INSTALL), which its protection
// doesn't show. Linux 6.13 and 6.14 have such guards, but don't report them.
bool is_guard(std::uint64_t page) {
  constexpr std::uint64_t kGuard = 1ULL << 58U;  // Documentation/admin-guide/mm/pagemap
  const UniqueFd pagemap(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  std::uint64_t entry = 0;
  const bool known = ::pread(pagemap.get(), &entry, sizeof(entry),
                             static_cast<off_t>(page / kPage * sizeof(entry))) == sizeof(entry);
  return known && (entry & kGuard) != 0;
}

// Whether the area is part of the main thread's stack, which calls like mlock() have split into
// several mappings: only the uppermost has the name.
bool leads_to_main_stack(const MappedArea& area, MemoryMap& map) {
  constexpr int kPartsMax = 16;
  MappedArea above;
  std::uint64_t end = area.end;
  for (int part = 0; part < kPartsMax && map.at_or_above(end, &above) && above.start == end &&
                     !above.shared && above.inode == 0;
       ++part) {
    if (above.name() == "[stack]") {
      return true;
    }
    end = above.end;
  }
  return false;
}

// Stacks are never converted. A fork's child would run on its parent's stack, and write to it,
// before it had a copy. And a thread that joins another waits on a shared futex in that one's
// stack: the kernel identifies it by the page behind the address, so the wake-up would be lost if
// that changed meanwhile. The main stack has a name, and the caller's is where this code runs.
// Those of other threads have a guard below them; so have the heaps of malloc's threads sometimes,
// when they are adjacent, but those begin at a multiple of their maximum size. glibc 2.42 makes the
// stack's own lowest page the guard, if the kernel supports that. Such adjacent stacks may be one
// mapping. The kernel merges other memory with it only if that is without huge pages, too, as
// MAP_STACK makes it; then the memory above a stack is left unconverted with it, and a stack above
// other memory isn't recognised.
bool is_stack(const MappedArea& area, MemoryMap& map) {
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  if (area.name() == "[stack]" || (here >= area.start && here < area.end) || is_guard(area.start) ||
      leads_to_main_stack(area, map)) {
    return true;
  }
  MappedArea below;
  return area.start % kThreadHeap != 0 && area.start != 0 &&
         map.at_or_above(area.start - 1, &below) && below.end == area.start &&
         below.protection == PROT_NONE && below.inode == 0;
}

// Whether the page is the first of a heap that malloc created for a thread, which contains the
// arena's state. In a fork's child libc resets all arenas before it calls any handler, that is,
// while the page is still the parent's. Such a heap begins with a pointer to the state, which
// directly follows. REQUIRES: `page` is in the area.
bool has_arena_state(const MappedArea& area, std::uint64_t page) {
  if (page % kThreadHeap != 0 || area.shared || area.inode != 0) {
    return false;
  }
  // Not by its address, which the program may be unmapping.
  const UniqueFd memory(::open("/proc/self/mem", O_RDONLY | O_CLOEXEC));
  std::uint64_t state = page;
  const bool known = ::pread(memory.get(), &state, sizeof(state), static_cast<off_t>(page)) ==
                     static_cast<ssize_t>(sizeof(state));
  return known && state > page && state < page + kPage;
}

}  // namespace

std::uint64_t main_thread_control_block() {
  const auto own = static_cast<std::uint64_t>(pthread_self());
  if (::getpid() == ::gettid()) {
    return own;
  }
  // The list is at the same place in every thread's block.
  const std::uint64_t list = robust_list_of(::gettid());
  const std::uint64_t of_main = robust_list_of(::getpid());
  return list == 0 || of_main == 0 ? 0 : of_main - (list - own);
}

std::uint64_t same_kind_until(const MappedArea& area, std::uint64_t first, std::uint64_t end) {
  end = std::min(end, area.end);
  for (const std::uint64_t border : {main_thread_block.end, main_thread_block.start}) {
    if (border > first && border < end) {
      end = border;
    }
  }
  if (has_arena_state(area, first)) {
    return std::min(end, first + kPage);
  }
  for (std::uint64_t page = align_floor(first, kThreadHeap) + kThreadHeap; page < end;
       page += kThreadHeap) {
    if (has_arena_state(area, page)) {
      return page;
    }
  }
  return end;
}

MemoryKind kind_of(const MappedArea& area, std::uint64_t first, MemoryMap& map) {
  const std::string_view name = area.name();
  if (area.shared) {
    // A System V segment's inode number is its identifier, which may be 0.
    return name.starts_with('/') ? MemoryKind::kFile : MemoryKind::kOther;
  }
  // Special mappings ([vdso]) have a name and no inode.
  const bool huge = name.starts_with("/anon_hugepage") && area.page_size > kPage;
  const bool plain = area.inode == 0 && area.page_size == kPage &&
                     (name.empty() || name == "[heap]" || name.starts_with("[anon:"));
  const bool block = first >= main_thread_block.start && first < main_thread_block.end;
  return huge || (plain && !block && !is_stack(area, map) && !has_arena_state(area, first))
             ? MemoryKind::kPrivate
             : MemoryKind::kOther;
}

}  // namespace uroce::shim
