#include "verbs_shim/memory/fork.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "dataplane/base/check.h"
#include "verbs_shim/memory/kernel_calls.h"
#include "verbs_shim/memory/memory_limit.h"
#include "verbs_shim/memory/sharing_state.h"

namespace uroce::shim {
namespace {

constexpr int kChildPatienceMs = 30'000;  // 1 GiB takes half a second
constexpr std::uint64_t kPage = 4096;

SharingState* sharing = nullptr;
unsigned fork_place = 0;
int cancelling_before = 0;
Invalidations::Announced fork_announced;
int copied_pipe[2] = {-1, -1};  // the child says when it has its copies; under the mutex

// The child is alone in its copy of the process and must not touch the heap, which may be among
// what it still shares: hence no containers here.

void copy_extents(int arena, std::byte* target, std::uint64_t offset, std::uint64_t length) {
  const std::uint64_t end = offset + length;
  for (std::uint64_t at = offset; at < end;) {
    const off_t data = ::lseek(arena, static_cast<off_t>(at), SEEK_DATA);
    if (data < 0 || static_cast<std::uint64_t>(data) >= end) {
      return;
    }
    at = static_cast<std::uint64_t>(data);
    const off_t hole = ::lseek(arena, data, SEEK_HOLE);
    const std::uint64_t last = hole < 0 ? end : std::min(static_cast<std::uint64_t>(hole), end);
    while (at < last) {
      // Not pread(), which AddressSanitizer checks against the heap's blocks: all of it is meant.
      const auto got = ::syscall(SYS_pread64, arena, target + (at - offset), last - at, at);
      if (got <= 0) {
        return;
      }
      at += static_cast<std::uint64_t>(got);
    }
  }
}

// What the arena's owner knows of it may lie in the area, so by value.
void make_private(int arena, std::uint64_t page_size, const AreaRange& area) {
  const int huge = page_size == kPage ? 0 : MAP_HUGETLB;
  auto* const start = static_cast<std::byte*>(kernel::pointer(area.start));
  const std::uint64_t length = area.end - area.start;
  // Nobody else runs, so the range may be empty for a moment.
  if (kernel::mmap(start, length, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | huge, -1, 0) == MAP_FAILED) {
    kernel::munmap(start,
                   length);  // a crash of the child is better than a quiet write into the parent
    return;
  }
  copy_extents(arena, start, area.offset, length);
  kernel::mprotect(start, length, area.protection);
}

void before_fork() {
  // fork() is no point of cancellation, but some of what is called here is.
  int cancelling = 0;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
  sharing->mutex.lock();
  cancelling_before = cancelling;
  sharing->watch.start_fork();
  // The child's copy is what memory was at the fork: nothing comes in on demand until it is made.
  // There is no region on demand without the book. Nor is anything of the arenas given back.
  fork_place = sharing->watch.enter({0, AddressWatch::kAddressEnd});
  sharing->invalidations.announce(0, AddressWatch::kAddressEnd, control::InvalidateReason::kProtect,
                                  &fork_announced);
  if (sharing->arenas.size() != 0 && ::pipe2(copied_pipe, O_CLOEXEC) != 0) {
    copied_pipe[0] = copied_pipe[1] = -1;
  }
}

void after_fork_in_parent() {
  if (copied_pipe[0] >= 0) {
    ::close(copied_pipe[1]);
    // Until then the program must not change what the child copies. The pipe also ends with the
    // child.
    pollfd done = {.fd = copied_pipe[0], .events = POLLIN, .revents = 0};
    ::poll(&done, 1, kChildPatienceMs);
    ::close(copied_pipe[0]);
    copied_pipe[0] = copied_pipe[1] = -1;
  }
  sharing->invalidations.finish(fork_announced);
  sharing->watch.leave(fork_place);
  sharing->watch.end_fork();
  const int cancelling = cancelling_before;
  sharing->mutex.unlock();
  pthread_setcancelstate(cancelling, nullptr);
}

void after_fork_in_child() {
  if (sharing->arenas.size() != 0) {
    for_each_area([](const AreaRange& area) {
      const std::uint32_t owner = sharing->arenas.owner_of(area);
      if (owner != ArenaList::kArenasMax) {
        const ArenaFile& arena = sharing->arenas[owner];
        make_private(arena.descriptor(), arena.page_size(), area);
      }
    });
  }
  // From here on the heap is the child's own.
  sharing->arenas.clear();
  sharing->converter.forget();
  sharing->map.forget();
  for (MemoryMap& map : sharing->maps) {
    map.forget();
  }
  sharing->watch.reset();
  sharing->invalidations.reset();
  forget_locked_memory();
  if (copied_pipe[0] >= 0) {
    ::close(copied_pipe[0]);
    ::close(copied_pipe[1]);
    copied_pipe[0] = copied_pipe[1] = -1;
  }
  const int cancelling = cancelling_before;
  sharing->mutex.unlock();
  pthread_setcancelstate(cancelling, nullptr);
}

}  // namespace

void keep_forks_apart(SharingState& state) {
  sharing = &state;
  UROCE_CHECK(pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0);
}

}  // namespace uroce::shim
