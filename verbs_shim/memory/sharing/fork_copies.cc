#include "verbs_shim/memory/sharing/fork_copies.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "base/check.h"
#include "base/page.h"
#include "verbs_shim/memory/sharing/isolated_thread.h"
#include "verbs_shim/memory/sharing/kernel_calls.h"
#include "verbs_shim/memory/sharing/memory_limit.h"
#include "verbs_shim/memory/sharing/sharing_state.h"

namespace uroce::shim {
namespace {

// How long a parent waits for its child's copies, plus the time per GiB of them, which takes
// several seconds where new pages are dear (fork_gib_ms of tests/bench/registration_bench.cc).
constexpr std::chrono::seconds kTimeoutMin{30};
constexpr std::chrono::seconds kTimeoutPerGib{20};

SharingState* sharing = nullptr;
unsigned fork_place = 0;
int cancelling_before = 0;
Invalidations::Announced fork_announced;
bool child_copies = false;  // under the mutex

// The child is the only thread in its copy of the process and must not touch the heap, which may be
// among the memory that it still shares: hence no containers here.

// Returns false if a page can't be read. Holes are zero in both.
bool copy_extents(int arena, std::byte* target, std::uint64_t offset, std::uint64_t length) {
  const std::uint64_t end = offset + length;
  for (std::uint64_t at = offset; at < end;) {
    const off_t data = ::lseek(arena, static_cast<off_t>(at), SEEK_DATA);
    if (data < 0) {
      return errno == ENXIO;  // a hole to the file's end
    }
    if (static_cast<std::uint64_t>(data) >= end) {
      return true;
    }
    at = static_cast<std::uint64_t>(data);
    const off_t hole = ::lseek(arena, data, SEEK_HOLE);
    const std::uint64_t last = hole < 0 ? end : std::min(static_cast<std::uint64_t>(hole), end);
    while (at < last) {
      // Not pread(), which AddressSanitizer would check against the heap's blocks.
      const auto got = ::syscall(SYS_pread64, arena, target + (at - offset), last - at, at);
      if (got <= 0) {
        return false;
      }
      at += static_cast<std::uint64_t>(got);
    }
  }
  return true;
}

// The same from another mapping, for pages that the descriptor can't read any more. Not memcpy(),
// as above. Zeroes aren't written.
__attribute__((no_sanitize("address"))) void copy_words(const std::uint64_t* source,
                                                        std::uint64_t* target,
                                                        std::uint64_t length) {
  for (std::uint64_t word = 0; word < length / sizeof(std::uint64_t); ++word) {
    if (source[word] != 0) {
      target[word] = source[word];
    }
  }
}

// A second mapping of an arena's pages, or null: mremap(2) makes one where the old size is 0.
std::uint64_t* map_again(void* start, std::uint64_t length) {
  void* const again = kernel::mremap(start, 0, length, MREMAP_MAYMOVE, nullptr);
  if (again == MAP_FAILED || kernel::mprotect(again, length, PROT_READ) != 0) {
    return nullptr;
  }
  return static_cast<std::uint64_t*>(again);
}

// The data about an arena may be in the area itself, so it is passed by value. `arena`: -1 if the
// program has closed it.
void make_private(int arena, std::uint64_t page_size, const AreaRange& area) {
  const int huge = page_size == kPage ? 0 : MAP_HUGETLB;
  auto* const start = static_cast<std::byte*>(kernel::pointer(area.start));
  const std::uint64_t length = area.end - area.start;
  std::uint64_t* const again = arena < 0 ? map_again(start, length) : nullptr;
  // No other thread runs, so the range may be unmapped for a moment.
  if ((arena < 0 && again == nullptr) ||
      kernel::mmap(start, length, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | huge, -1, 0) == MAP_FAILED) {
    kernel::munmap(start,
                   length);  // better a crash of the child than a silent write into the parent
    return;
  }
  if (again == nullptr) {
    if (!copy_extents(arena, start, area.offset, length)) {
      // As above: zeroes, or what is mapped here next, would be taken for the parent's data.
      kernel::mprotect(start, length, PROT_NONE);
      return;
    }
  } else {
    copy_words(again, reinterpret_cast<std::uint64_t*>(start), length);
    kernel::munmap(again, length);
  }
  kernel::mprotect(start, length, area.protection);
}

// Where it isn't known which memory is shared, the child can't go on.
[[noreturn]] void abort_child() {
  constexpr char kWhy[] =
      "uroce: a fork's child can't have its own copy of registered memory: "
      "/proc/self/maps can't be read\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kWhy, sizeof(kWhy) - 1);
  ::abort();
}

void before_fork() {
  // fork() isn't a cancellation point, but some of the calls here are.
  int cancelling = 0;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
  sharing->mutex.lock();
  cancelling_before = cancelling;
  sharing->watch.start_fork();
  // The child's copy is the memory at the time of the fork: no on-demand page is populated until it
  // is made. (Without the bitmap there is no on-demand region.) Nor is any part of the arenas
  // released.
  fork_place = sharing->watch.enter({0, AddressWatch::kAddressEnd});
  sharing->invalidations.announce(0, AddressWatch::kAddressEnd, abi::InvalidateReason::kProtect,
                                  &fork_announced);
  child_copies = sharing->arenas.size() != 0;
  if (child_copies) {
    sharing->fork_wait.prepare();
  }
}

// An arena whose descriptor the program has closed doesn't count.
std::chrono::seconds patience() {
  constexpr std::uint64_t kGib = 1ULL << 30U;
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < sharing->arenas.size(); ++i) {
    bytes += sharing->arenas[i].bytes();
  }
  return kTimeoutMin + kTimeoutPerGib * static_cast<std::int64_t>(bytes / kGib);
}

void after_fork_in_parent() {
  if (child_copies) {
    // Until then the program must not change what the child copies. A child that is too late finds
    // the parent's changes.
    (void)sharing->fork_wait.wait(std::chrono::steady_clock::now() + patience());
  }
  sharing->invalidations.finish(fork_announced);
  sharing->watch.leave(fork_place);
  sharing->watch.end_fork();
  const int cancelling = cancelling_before;
  sharing->mutex.unlock();
  pthread_setcancelstate(cancelling, nullptr);
}

void after_fork_in_child() {
  if (child_copies) {
    sharing->fork_wait.begin();
  }
  // Before the mappings are read, because it closes descriptors.
  sharing->map.forget();
  for (MemoryMap& map : sharing->maps) {
    map.forget();
  }
  if (sharing->arenas.size() != 0) {
    const bool all = for_each_area([](const AreaRange& area) {
      const std::uint32_t owner = sharing->arenas.owner_of(area);
      if (owner != ArenaList::kArenasMax) {
        const ArenaFile& arena = sharing->arenas[owner];
        make_private(arena.descriptor(), arena.page_size(), area);
      }
    });
    if (!all) {
      abort_child();
    }
  }
  // From here on the heap is the child's own.
  sharing->arenas.clear();
  sharing->converter.forget();
  IsolatedThread::forget_all();
  sharing->watch.reset();
  sharing->invalidations.reset();
  sharing->run_rooms.reset();
  forget_locked_memory();
  if (child_copies) {
    sharing->fork_wait.end();
  }
  sharing->fork_wait.forget();
  const int cancelling = cancelling_before;
  sharing->mutex.unlock();
  pthread_setcancelstate(cancelling, nullptr);
}

}  // namespace

void install_fork_handlers(SharingState& state) {
  sharing = &state;
  UROCE_CHECK(pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0);
}

}  // namespace uroce::shim
