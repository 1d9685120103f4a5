// Memory that is paged on demand, changed in ways that the shim doesn't carry out itself: moved by
// the kernel, or changed by system calls that bypass libc.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/unique_fd.h"
#include "tests/unit/shim_memory/filled_memory.h"
#include "tests/unit/shim_memory/paging_daemon.h"
#include "verbs_shim/memory/paging/unseen_changes.h"
#include "verbs_shim/memory/sharing/kernel_calls.h"
#include "verbs_shim/memory/sharing/memory_map.h"
#include "verbs_shim/memory/sharing/sharing_state.h"

namespace uroce::test {
namespace {

constexpr std::size_t kPages = 3;
constexpr std::size_t kBytes = kPages * kPage;
constexpr std::uint64_t kFar = 3ULL << 44U;  // beyond AddressSanitizer's mappings

std::uint64_t number_of(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

class PagingChanges : public ::testing::Test {
 protected:
  // Pages that the daemon has mapped; each begins with its number plus `more`. At addresses that
  // the system doesn't use by itself, so that holes stay holes.
  std::uint64_t* map_known(std::uint64_t more) {
    auto* const memory = static_cast<std::uint64_t*>(
        ::mmap(shim::kernel::pointer(kFar + more * abi::kPagingChunk), kBytes,
               PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
    EXPECT_NE(memory, MAP_FAILED);
    for (std::size_t page = 0; page < kPages; ++page) {
      memory[page * kWords] = page + more;
      EXPECT_EQ(daemon_.load(memory + page * kWords), page + more);
    }
    return memory;
  }

  PagingDaemon daemon_;
};

// Whether its writers are held off, since it is being converted.
bool is_held(int pagemap, const void* page) {
  constexpr std::uint64_t kWriteProtected = 1ULL << 57U;  // Documentation/admin-guide/mm/pagemap
  std::uint64_t entry = 0;
  const auto place = static_cast<off_t>(number_of(page) / kPage * sizeof(entry));
  return ::pread(pagemap, &entry, sizeof(entry), place) == sizeof(entry) &&
         (entry & kWriteProtected) != 0;
}

bool is_writable(const std::uint64_t* page) {
  shim::MappedArea area;
  return shim::MemoryMap().at_or_above(number_of(page), &area) &&
         (area.protection & PROT_WRITE) != 0;
}

// Memory that is moved keeps its place, so each move takes places away from the arena.
TEST_F(PagingChanges, AreWithoutEnd) {
  constexpr int kMoves = 150'000;
  std::uint64_t* const before = map_known(31);
  for (int move = 0; move < kMoves; ++move) {
    shim::ArenaFile::next_generation();
    if (move % (kMoves / 3) == 0) {
      std::uint64_t* const memory = map_known(32);
      EXPECT_TRUE(daemon_.store(memory, 5));
      EXPECT_EQ(memory[0], 5U);
      ::munmap(memory, kBytes);
    }
  }
  EXPECT_EQ(daemon_.load(before), 31U);
  ::munmap(before, kBytes);
}

// Not even if the daemon has asked for the memory in which the shim notes what it has described,
// which a fault at an implicit region's address may lead to.
TEST_F(PagingChanges, AChildOfABareForkAnnouncesNothing) {
  std::uint64_t* const memory = map_known(21);
  const shim::AddressWatch& watch = shim::sharing_state().watch;
  shim::MappedArea area;
  for (std::uint64_t at = 0; shim::MemoryMap().at_or_above(at, &area); at = area.end) {
    if (watch.keeps_table_in({area.start, area.end})) {
      (void)daemon_.ask(shim::kernel::pointer(area.start), area.end - area.start);
      break;
    }
  }
  (void)daemon_.announced();
  const pid_t child = ::_Fork();
  if (child == 0) {
    ::munmap(memory, kBytes);
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(daemon_.announced().empty());
  EXPECT_EQ(memory[0], 21U);
  ::munmap(memory, kBytes);
}

// A conversion maps the memory with the protection that it had read.
TEST_F(PagingChanges, RightsGrantedDuringAConversionStay) {
  constexpr int kRounds = 20;
  const UniqueFd pagemap(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  for (int round = 0; round < kRounds; ++round) {
    std::uint64_t* const memory = map_filled(2 * abi::kPagingChunk);
    ASSERT_EQ(::mprotect(memory, 2 * abi::kPagingChunk, PROT_READ), 0);
    std::uint64_t* const inside = memory + abi::kPagingChunk / sizeof(*memory);
    std::atomic<bool> described{false};
    std::thread fault([&] {
      (void)daemon_.ask(inside, kPage);
      described = true;
    });
    while (!described && !is_held(pagemap.get(), inside)) {
    }
    EXPECT_EQ(::mprotect(memory, 2 * abi::kPagingChunk, PROT_READ | PROT_WRITE), 0);
    fault.join();
    EXPECT_TRUE(is_writable(inside));
    ::munmap(memory, 2 * abi::kPagingChunk);
  }
}

// Linux can move a range with holes from 6.17 on: each mapping moves by the same distance, and what
// is between their targets stays.
TEST_F(PagingChanges, MremapMovesARangeWithHoles) {
  std::uint64_t* const memory = map_known(1);
  std::uint64_t* const target = map_known(11);
  ASSERT_EQ(::munmap(memory + kWords, kPage), 0);
  if (::mremap(memory, kBytes, kBytes, MREMAP_MAYMOVE | MREMAP_FIXED, target) == MAP_FAILED) {
    GTEST_SKIP() << "the kernel moves nothing that has holes (Linux 6.17)";
  }
  EXPECT_EQ(target[kWords], 12U);
  EXPECT_EQ(daemon_.load(target + kWords), 12U);
  // New memory at the old address has another place in the arena than the memory that was moved.
  ASSERT_EQ(::mmap(memory, kBytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
            memory);
  for (const std::size_t page : {std::size_t{0}, std::size_t{2}}) {
    EXPECT_EQ(daemon_.load(memory + page * kWords), 0U);
    EXPECT_TRUE(daemon_.store(memory + page * kWords, 77));
    EXPECT_EQ(target[page * kWords], page + 1);
    EXPECT_EQ(daemon_.load(target + page * kWords), page + 1);
  }
  ::munmap(memory, kBytes);
  ::munmap(target, kBytes);
}

TEST_F(PagingChanges, ChangesThatBypassedLibcAreAnnouncedAtRegistration) {
  std::uint64_t* const memory = map_known(1);
  const std::uint64_t start = number_of(memory);
  daemon_.announced();
  shim::announce_unseen(start, start + kBytes);  // unchanged since the daemon saw it
  EXPECT_TRUE(daemon_.announced().empty());
  std::uint64_t* const second = memory + kWords;
  ASSERT_EQ(::syscall(SYS_munmap, second, kPage), 0);
  ASSERT_EQ(::syscall(SYS_mmap, second, kPage, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
            static_cast<long>(number_of(second)));
  shim::announce_unseen(start + 8, start + kBytes - 8);
  const auto seen = daemon_.announced();
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].address, number_of(second));
  EXPECT_EQ(seen[0].length, kPage);
  EXPECT_EQ(seen[0].reason, abi::InvalidateReason::kUnmap);
  EXPECT_TRUE(daemon_.store(second, 5));
  EXPECT_EQ(second[0], 5U);
  EXPECT_EQ(memory[0], 1U);
  ::munmap(memory, kBytes);
}

}  // namespace
}  // namespace uroce::test
