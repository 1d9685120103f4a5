// The guarantees of private memory that programs, allocators above all, rely on, kept for memory
// that has been registered: in a process that doesn't page on demand.

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "tests/unit/shim_memory/filled_memory.h"
#include "tests/unit/shim_memory/fresh_process.h"
#include "tests/unit/shim_memory/stand_in.h"

namespace uroce::test {
namespace {

constexpr std::uint64_t kFull = ~std::uint64_t{0};
constexpr std::uint32_t kWriting = kAccessLocalWrite | kAccessRemoteWrite;

std::uint64_t number_of(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

shim::HeldMemory hold(const void* address, std::size_t length) {
  auto description = shim::describe_memory(number_of(address), length, kWriting);
  EXPECT_TRUE(description);
  EXPECT_EQ(description->pieces.front().kind, abi::PieceKind::kArena);
  return std::move(description->held);
}

// Registered and deregistered.
void convert(const void* address, std::size_t length) {
  shim::release_memory(hold(address, length));
}

std::uint64_t bytes_in_arena() {
  struct stat status = {};
  EXPECT_EQ(::fstat(shim::arena(0).descriptor, &status), 0);
  return static_cast<std::uint64_t>(status.st_blocks) * 512;
}

// Otherwise the daemon would populate the pages, and its memory cgroup would be charged for them.
TEST(Pinned, PagesArePopulatedBeforeTheDaemonTouchesThem) {
  if (!is_fresh_process()) {
    return;
  }
  StandIn daemon;
  constexpr std::size_t kBytes = 64 * kPage;
  void* const memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const shim::HeldMemory held = hold(memory, kBytes);
  EXPECT_EQ(bytes_in_arena(), kBytes);
  EXPECT_EQ(static_cast<std::uint64_t*>(memory)[0], 0U);
  shim::release_memory(held);
}

TEST(Pinned, DroppedMemoryReadsAsZeroes) {
  if (!is_fresh_process()) {
    return;
  }
  StandIn daemon;
  for (const int advice : {MADV_DONTNEED, MADV_FREE}) {
    std::uint64_t* const memory = map_filled(8 * kPage);
    ASSERT_EQ(daemon.share(memory + kWords, 4 * kPage).error, 0U);
    // Private memory on both sides, and a part that isn't dropped.
    ASSERT_EQ(::madvise(memory, 3 * kPage, advice), 0);
    EXPECT_EQ(memory[kWords], 0U);
    EXPECT_EQ(memory[3 * kWords - 1], 0U);
    EXPECT_EQ(memory[3 * kWords], kFull);
    EXPECT_EQ(memory[7 * kWords], kFull);
    if (advice == MADV_DONTNEED) {
      EXPECT_EQ(memory[0], 0U);
    }
    memory[kWords] = 5;
    ASSERT_EQ(daemon.share(memory + kWords, 4 * kPage).error, 0U);
    EXPECT_EQ(daemon.load(memory + kWords), 5U);
    EXPECT_TRUE(daemon.store(memory + kWords + 1, 6));
    EXPECT_EQ(memory[kWords + 1], 6U);
    EXPECT_EQ(::madvise(memory + kWords, kPage, -1), -1);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(::madvise(reinterpret_cast<char*>(memory) + 1, kPage, MADV_DONTNEED), -1);
    EXPECT_EQ(errno, EINVAL);
    ::munmap(memory, 8 * kPage);
  }
}

TEST(Pinned, GuardsDropWhatTheyCover) {
  constexpr int kGuardInstall = 102;  // MADV_GUARD_INSTALL, Linux 6.13
  constexpr int kGuardRemove = 103;
  StandIn daemon;
  std::uint64_t* const memory = map_filled(4 * kPage);
  convert(memory, 4 * kPage);
  if (::madvise(memory + kWords, 2 * kPage, kGuardInstall) != 0) {
    GTEST_SKIP() << "the kernel has no guards for shared memory (Linux 6.15)";
  }
  ASSERT_EQ(::madvise(memory + kWords, 2 * kPage, kGuardRemove), 0);
  EXPECT_EQ(memory[0], kFull);
  EXPECT_EQ(memory[kWords], 0U);
  EXPECT_EQ(memory[2 * kWords], 0U);
  EXPECT_EQ(memory[3 * kWords], kFull);
  ::munmap(memory, 4 * kPage);
}

TEST(Pinned, MremapMovesPartlyConvertedMemory) {
  if (!is_fresh_process()) {
    return;
  }
  StandIn daemon;
  std::uint64_t* memory = map_filled(8 * kPage);
  convert(memory + 2 * kWords, 3 * kPage);
  memory = static_cast<std::uint64_t*>(::mremap(memory, 8 * kPage, 64 * kPage, MREMAP_MAYMOVE));
  ASSERT_NE(memory, MAP_FAILED);
  for (std::size_t page = 0; page < 64; ++page) {
    EXPECT_EQ(memory[page * kWords], page < 8 ? kFull : 0) << page;
    memory[page * kWords] = page;
  }
  ASSERT_EQ(daemon.share(memory, 64 * kPage).error, 0U);
  EXPECT_EQ(daemon.load(memory + 4 * kWords), 4U);
  EXPECT_EQ(daemon.load(memory + 63 * kWords), 63U);
  // Its new address is known as well.
  ASSERT_EQ(::madvise(memory, 64 * kPage, MADV_DONTNEED), 0);
  EXPECT_EQ(memory[4 * kWords], 0U);
  ::munmap(memory, 64 * kPage);
}

TEST(Pinned, AnMremapThatFailsChangesNothing) {
  if (!is_fresh_process()) {
    return;
  }
  std::uint64_t* const memory = map_filled(8 * kPage);
  convert(memory + 2 * kWords, 3 * kPage);
  // There is room, but placing the memory there is refused.
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_DATA, &before), 0);
  const rlimit none = {.rlim_cur = kPage, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_DATA, &none), 0);
  void* const moved = ::mremap(memory, 8 * kPage, 64 * kPage, MREMAP_MAYMOVE);
  const int error = errno;
  ASSERT_EQ(::setrlimit(RLIMIT_DATA, &before), 0);
  EXPECT_EQ(moved, MAP_FAILED);
  EXPECT_EQ(error, ENOMEM);
  for (std::size_t page = 0; page < 8; ++page) {
    EXPECT_EQ(memory[page * kWords], kFull) << page;
  }
  ::munmap(memory, 8 * kPage);
}

TEST(Pinned, MemoryRegrownAfterShrinkingIsZeroed) {
  if (!is_fresh_process()) {
    return;
  }
  std::uint64_t* memory = map_filled(8 * kPage);
  const shim::HeldMemory held = hold(memory, 8 * kPage);
  ASSERT_EQ(::mremap(memory, 8 * kPage, 4 * kPage, 0), memory);
  memory = static_cast<std::uint64_t*>(::mremap(memory, 4 * kPage, 8 * kPage, MREMAP_MAYMOVE));
  ASSERT_NE(memory, MAP_FAILED);
  EXPECT_EQ(memory[3 * kWords], kFull);
  EXPECT_EQ(memory[4 * kWords], 0U);
  shim::release_memory(held);
  ::munmap(memory, 8 * kPage);
}

TEST(Pinned, UnmappedMemoryIsFreedAtOnce) {
  if (!is_fresh_process()) {
    return;
  }
  constexpr std::size_t kBytes = 16 << 20;
  std::uint64_t* const other = map_filled(kPage);
  const shim::HeldMemory elsewhere = hold(other, kPage);
  std::uint64_t* memory = map_filled(kBytes);
  convert(memory, kBytes);
  ASSERT_GE(bytes_in_arena(), kBytes);
  ::munmap(memory, kBytes / 2);
  EXPECT_LE(bytes_in_arena(), kBytes / 2 + kPage);
  ASSERT_NE(::mmap(memory + kBytes / 16, kBytes / 2, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
            MAP_FAILED);
  EXPECT_LE(bytes_in_arena(), kPage);
  // While it is registered, peers use it too.
  memory = map_filled(kBytes);
  const shim::HeldMemory held = hold(memory, kBytes);
  ::munmap(memory, kBytes);
  EXPECT_GE(bytes_in_arena(), kBytes);
  shim::release_memory(held);
  shim::release_memory(elsewhere);
}

// However many registrations have shared it.
TEST(Pinned, UnmappedMemoryOfManyPiecesIsFreedAtOnce) {
  if (!is_fresh_process()) {
    return;
  }
  constexpr std::size_t kPieces = 300;
  constexpr std::size_t kBytes = 2 * kPieces * kPage;
  for (const bool replaced : {false, true}) {
    std::uint64_t* const memory = map_filled(kBytes);
    for (std::size_t i = 0; i < kPieces; ++i) {
      convert(memory + 2 * i * kWords, kPage);
    }
    ASSERT_EQ(bytes_in_arena(), kPieces * kPage);
    if (replaced) {
      ASSERT_EQ(::mmap(memory, kBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                memory);
    } else {
      ASSERT_EQ(::munmap(memory, kBytes), 0);
    }
    EXPECT_EQ(bytes_in_arena(), 0U);
  }
}

TEST(Pinned, TheBreakCanBeLowered) {
  if (!is_fresh_process()) {
    return;
  }
  constexpr std::size_t kBytes = 1 << 20;
  auto* const memory = static_cast<std::uint64_t*>(::sbrk(kBytes + kPage));
  ASSERT_NE(memory, reinterpret_cast<void*>(-1));
  std::memset(memory, 0xff, kBytes + kPage);
  std::uint64_t* const inside = memory + (kPage - number_of(memory) % kPage) / sizeof(*memory);
  convert(inside, kBytes);
  ASSERT_GE(bytes_in_arena(), kBytes);
  ASSERT_NE(::sbrk(-static_cast<std::intptr_t>(kBytes + kPage)), reinterpret_cast<void*>(-1));
  EXPECT_EQ(bytes_in_arena(), 0U);
  ASSERT_EQ(::sbrk(kBytes + kPage), memory);
  EXPECT_EQ(*inside, 0U);
}

// A call that isn't a cancellation point mustn't become one: malloc makes it with its locks held.
TEST(Pinned, NobodyIsCancelledInsideACall) {
  if (!is_fresh_process()) {
    return;
  }
  std::uint64_t* const memory = map_filled(4 * kPage);
  convert(memory, 4 * kPage);
  std::atomic<int> done{0};
  std::thread other([&] {
    ::pthread_cancel(::pthread_self());
    ::madvise(memory, kPage, MADV_DONTNEED);
    done = 1;
    ::munmap(memory + kWords, kPage);
    done = 2;
    int state = 0;
    ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    done = state == PTHREAD_CANCEL_ENABLE ? 3 : 2;
  });
  other.join();
  EXPECT_EQ(done, 3);
  ::munmap(memory, 4 * kPage);
}

// Memory that the parent's other threads drop once it has forked is still there in the child.
TEST(Pinned, DropsDuringAForkDontAffectTheChild) {
  if (!is_fresh_process()) {
    return;
  }
  constexpr std::size_t kPages = 16'384;
  std::uint64_t* const memory = map_filled(kPages * kPage);
  convert(memory, kPages * kPage);
  // The next page to be dropped, going down from the end while the child copies upwards: a child
  // that reads this number must still have all pages before it.
  static std::atomic<std::size_t> next{kPages};
  static std::atomic<bool> stop{false};
  std::thread drops([&] {
    while (next != 0 && !stop) {
      const std::size_t page = --next;
      if (page % 2 == 0) {
        ::madvise(memory + page * kWords, kPage, MADV_DONTNEED);
      } else {
        ::munmap(memory + page * kWords, kPage);
      }
    }
  });
  while (next > kPages - 100) {
  }
  const pid_t child = ::fork();
  if (child == 0) {
    for (std::size_t page = 0; page < next; ++page) {
      if (memory[page * kWords] != kFull) {
        ::_exit(1);
      }
    }
    ::_exit(next > 0 ? 0 : 2);
  }
  stop = true;
  drops.join();
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  for (std::size_t page = next; page < kPages; ++page) {
    if (page % 2 == 0) {
      ASSERT_EQ(memory[page * kWords], 0U) << page;
    }
  }
}

// A child of _Fork(), for which no fork handlers run, shares the memory: what it drops or unmaps
// stays in its parent.
TEST(Pinned, AChildOfABareForkDoesntAffectItsParent) {
  if (!is_fresh_process()) {
    return;
  }
  std::uint64_t* const memory = map_filled(4 * kPage);
  convert(memory, 4 * kPage);
  const pid_t child = ::_Fork();
  if (child == 0) {
    ::madvise(memory, kPage, MADV_DONTNEED);
    ::munmap(memory + kWords, 3 * kPage);
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  for (std::size_t page = 0; page < 4; ++page) {
    EXPECT_EQ(memory[page * kWords], kFull) << page;
  }
}

}  // namespace
}  // namespace uroce::test
