// Memory that is paged on demand: the helper thread's answers, and what the program's own calls
// announce and preserve.

#include <fcntl.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>

#include "tests/unit/shim_memory/asan.h"
#include "tests/unit/shim_memory/paging_daemon.h"
#include "tests/unit/taken_number.h"
#include "tests/unit/temporary_folder.h"

namespace uroce::test {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kWords = kPage / sizeof(std::uint64_t);
constexpr std::size_t kChunk = abi::kPagingChunk;
using Reason = abi::InvalidateReason;

std::uint64_t number_of(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

std::uint64_t* map(std::size_t length, int protection = PROT_READ | PROT_WRITE) {
  void* const memory = ::mmap(nullptr, length, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(memory, MAP_FAILED);
  return static_cast<std::uint64_t*>(memory);
}

class Paging : public ::testing::Test {
 protected:
  // Expects that exactly this was announced since the last check.
  void expect_announced(const void* address, std::size_t length, Reason reason) {
    const auto seen = daemon_.announced();
    ASSERT_EQ(seen.size(), 1U);
    EXPECT_EQ(seen[0].address, number_of(address));
    EXPECT_EQ(seen[0].length, length);
    EXPECT_EQ(seen[0].reason, reason);
  }
  // The rights of a page in an answer; nullopt if no piece covers it.
  std::optional<std::uint32_t> rights_of(const PagingDaemon::Shared& shared, const void* address) {
    for (const abi::SharedPiece& piece : shared.pieces) {
      if (number_of(address) >= piece.memory.address &&
          number_of(address) < piece.memory.address + piece.memory.length) {
        return piece.rights;
      }
    }
    return std::nullopt;
  }

  PagingDaemon daemon_;
};

TEST_F(Paging, PrivateMemoryIsSharedWhenAskedFor) {
  std::uint64_t* const memory = map(4 * kChunk);
  memory[3] = 42;
  EXPECT_EQ(daemon_.load(memory + 3), 42U);
  EXPECT_TRUE(daemon_.store(memory + kWords, 7));
  EXPECT_EQ(memory[kWords], 7U);
  EXPECT_EQ(daemon_.load(memory + 3 * kChunk / 8), 0U);
  memory[4] = 43;
  EXPECT_EQ(daemon_.load(memory + 4), 43U);
  ::munmap(memory, 4 * kChunk);
}

TEST_F(Paging, NeighbouringChunksAreOneMapping) {
  std::uint64_t* const memory = map(8 * kChunk);
  for (std::size_t i = 0; i < 8; ++i) {
    ASSERT_TRUE(daemon_.store(memory + i * kChunk / 8, i));
  }
  const auto shared = daemon_.ask(memory, 7 * kChunk);
  std::size_t pieces = 0;
  for (const abi::SharedPiece& piece : shared.pieces) {
    pieces += piece.memory.address < number_of(memory) + 7 * kChunk &&
                      piece.memory.address + piece.memory.length > number_of(memory)
                  ? 1
                  : 0;
  }
  EXPECT_EQ(pieces, 1U);
  ::munmap(memory, 8 * kChunk);
}

TEST_F(Paging, AnswersContainTheRightsOfPages) {
  std::uint64_t* const memory = map(8 * kPage);
  ::mprotect(memory + kWords, kPage, PROT_READ);
  ::mprotect(memory + 2 * kWords, kPage, PROT_NONE);
  ::munmap(memory + 3 * kWords, kPage);
  const auto shared = daemon_.ask(memory, 8 * kPage);
  EXPECT_EQ(rights_of(shared, memory), PagingDaemon::kReadWrite);
  EXPECT_EQ(rights_of(shared, memory + kWords), abi::kPagingRead);
  EXPECT_EQ(rights_of(shared, memory + 2 * kWords), std::nullopt);
  EXPECT_EQ(rights_of(shared, memory + 3 * kWords), std::nullopt);
  EXPECT_EQ(rights_of(shared, memory + 4 * kWords), PagingDaemon::kReadWrite);
  ::munmap(memory, 8 * kPage);
}

TEST_F(Paging, StacksAreLeftAlone) {
  std::uint64_t on_stack = 5;
  std::thread other([&] {
    std::uint64_t there = 6;
    for (const std::uint64_t* word : {&on_stack, &there}) {
      for (const abi::SharedPiece& piece : daemon_.ask(word, 8).pieces) {
        if (number_of(word) >= piece.memory.address &&
            number_of(word) < piece.memory.address + piece.memory.length) {
          EXPECT_EQ(piece.memory.kind, abi::PieceKind::kProcMem);
        }
      }
    }
  });
  other.join();
}

TEST_F(Paging, SharedFilesArePassedAsDescriptors) {
  const TemporaryFolder folder;
  const UniqueFd file(::open((folder / "file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::ftruncate(file.get(), 2 * kPage), 0);
  auto* const memory = static_cast<std::uint64_t*>(
      ::mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0));
  memory[kWords] = 9;
  EXPECT_EQ(daemon_.load(memory + kWords), 9U);
  EXPECT_TRUE(daemon_.store(memory, 10));
  EXPECT_EQ(memory[0], 10U);
  ::munmap(memory, 2 * kPage);
}

TEST_F(Paging, MemoryThatAppearsLaterIsFound) {
  std::uint64_t* const memory = map(kChunk);
  ::munmap(memory, kChunk);
  EXPECT_EQ(daemon_.load(memory), std::nullopt);
  ASSERT_EQ(::mmap(memory, kChunk, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
            memory);
  memory[1] = 3;
  EXPECT_EQ(daemon_.load(memory + 1), 3U);
  ::munmap(memory, kChunk);
}

TEST_F(Paging, MunmapIsAnnouncedAndFreesPages) {
  std::uint64_t* const memory = map(kChunk);
  ASSERT_TRUE(daemon_.store(memory, 1));
  const auto shared = daemon_.ask(memory, kPage);
  daemon_.announced();
  ASSERT_EQ(::munmap(memory, kChunk), 0);
  expect_announced(memory, kChunk, Reason::kUnmap);
  daemon_.expect_all_ended();
  std::uint64_t* const again =
      static_cast<std::uint64_t*>(::mmap(memory, kChunk, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
  ASSERT_EQ(again, memory);
  EXPECT_EQ(memory[0], 0U);
  EXPECT_EQ(daemon_.load(memory), 0U);
  ::munmap(memory, kChunk);
}

TEST_F(Paging, MemoryNeverAskedForIsNotAnnounced) {
  // Far from all mappings, AddressSanitizer's shadow included: elsewhere a chunk may have been
  // asked for with its earlier contents.
  void* const far = reinterpret_cast<void*>(std::uintptr_t{1} << 45U);
  void* const memory = ::mmap(far, 64 * kChunk, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  ASSERT_EQ(memory, far);
  daemon_.announced();
  ::madvise(memory, 64 * kChunk, MADV_DONTNEED);
  ::munmap(memory, 64 * kChunk);
  EXPECT_TRUE(daemon_.announced().empty());
}

TEST_F(Paging, DroppedMemoryReadsAsZeroes) {
  for (const int advice : {MADV_DONTNEED, MADV_FREE}) {
    std::uint64_t* const memory = map(2 * kChunk);
    memory[0] = 11;
    memory[kWords] = 12;
    ASSERT_EQ(daemon_.load(memory), 11U);
    ASSERT_EQ(daemon_.load(memory + kWords), 12U);
    daemon_.announced();
    ASSERT_EQ(::madvise(memory, kPage, advice), 0);
    expect_announced(memory, kPage, Reason::kDrop);
    EXPECT_EQ(memory[0], 0U);
    EXPECT_EQ(memory[kWords], 12U);
    EXPECT_EQ(daemon_.load(memory), 0U);
    memory[0] = 13;
    EXPECT_EQ(daemon_.load(memory), 13U);
    ::munmap(memory, 2 * kChunk);
  }
}

TEST_F(Paging, DroppingMoreThanIsMappedFailsAsBefore) {
  std::uint64_t* const memory = map(4 * kPage);
  ASSERT_TRUE(daemon_.store(memory, 1));
  ASSERT_TRUE(daemon_.store(memory + 3 * kWords, 1));
  ::munmap(memory + kWords, kPage);
  EXPECT_EQ(::madvise(memory, 4 * kPage, MADV_DONTNEED), -1);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(memory[0], 0U);
  EXPECT_EQ(memory[3 * kWords], 0U);
  EXPECT_EQ(::munmap(reinterpret_cast<std::byte*>(memory) + 1, kPage), -1);
  EXPECT_EQ(errno, EINVAL);
  ::munmap(memory, 4 * kPage);
}

TEST_F(Paging, RightsTakenAwayAreAnnounced) {
  std::uint64_t* const memory = map(kChunk);
  ASSERT_TRUE(daemon_.store(memory, 1));
  daemon_.announced();
  ::mprotect(memory, kPage, PROT_READ);
  expect_announced(memory, kPage, Reason::kProtect);
  ::mprotect(memory, kPage, PROT_READ | PROT_WRITE);
  EXPECT_TRUE(daemon_.announced().empty());
  ::munmap(memory, kChunk);
}

TEST_F(Paging, MmapOverItIsAnnounced) {
  std::uint64_t* const memory = map(kChunk);
  ASSERT_TRUE(daemon_.store(memory, 1));
  daemon_.announced();
  ASSERT_EQ(
      ::mmap(memory, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
      memory);
  expect_announced(memory, kPage, Reason::kUnmap);
  EXPECT_EQ(memory[0], 0U);
  memory[0] = 2;
  EXPECT_EQ(daemon_.load(memory), 2U);
  ::munmap(memory, kChunk);
}

TEST_F(Paging, MremapMovesAndGrowsPartlySharedMemory) {
  constexpr std::size_t kOld = 4 * kChunk;
  constexpr std::size_t kNew = 16 * kChunk;
  std::uint64_t* memory = map(kOld);
  std::uint64_t* const behind = map(kPage);  // below, so that something is in the way above
  for (std::size_t at = 0; at < kOld / 8; at += kWords) {
    memory[at] = at + 1;
  }
  ASSERT_EQ(daemon_.load(memory + kChunk / 8), kChunk / 8 + 1);  // the second chunk only
  std::uint64_t* const old = memory;
  memory = static_cast<std::uint64_t*>(::mremap(memory, kOld, kNew, MREMAP_MAYMOVE));
  ASSERT_NE(memory, MAP_FAILED);
  for (std::size_t at = 0; at < kNew / 8; at += kWords) {
    ASSERT_EQ(memory[at], at < kOld / 8 ? at + 1 : 0) << at;
    memory[at] = at + 2;
  }
  for (std::size_t at = 0; at < kNew / 8; at += 64 * kWords) {
    ASSERT_EQ(daemon_.load(memory + at), at + 2);
  }
  if (old != memory) {  // new memory at the old address has none of the old contents
    void* const again = ::mmap(old, kOld, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (again == old) {
      EXPECT_EQ(daemon_.load(old + kChunk / 8), 0U);
      EXPECT_TRUE(daemon_.store(old + kChunk / 8, 77));
      EXPECT_EQ(memory[kChunk / 8], kChunk / 8 + 2);
      ::munmap(old, kOld);
    }
  }
  memory = static_cast<std::uint64_t*>(::mremap(memory, kNew, kChunk, 0));
  ASSERT_NE(memory, MAP_FAILED);
  EXPECT_EQ(daemon_.load(memory + 2 * kChunk / 8), std::nullopt);
  ::munmap(memory, kChunk);
  ::munmap(behind, kPage);
}

TEST_F(Paging, CallsOfMallocAreSeen) {
  if (has_asan_malloc()) {
    GTEST_SKIP() << "AddressSanitizer has its own malloc, which calls the kernel directly";
  }
  constexpr std::size_t kBytes = 64 << 20;
  auto* chunk = static_cast<std::uint64_t*>(std::malloc(kBytes));
  chunk[5] = 5;
  ASSERT_EQ(daemon_.load(chunk + 5), 5U);
  chunk = static_cast<std::uint64_t*>(std::realloc(chunk, 2 * kBytes));
  EXPECT_EQ(chunk[5], 5U);
  ASSERT_EQ(daemon_.load(chunk + 5), 5U);
  daemon_.announced();
  const std::uint64_t before = number_of(chunk) / kPage * kPage;
  std::free(chunk);
  const auto seen = daemon_.announced();
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].address, before);
  EXPECT_EQ(seen[0].reason, Reason::kUnmap);
}

TEST_F(Paging, ForkedChildHasItsOwn) {
  std::uint64_t* const memory = map(kChunk);
  memory[0] = 1;
  ASSERT_EQ(daemon_.load(memory), 1U);
  daemon_.announced();
  const pid_t child = ::fork();
  if (child == 0) {
    const bool right = memory[0] == 1;
    memory[0] = 99;
    daemon_.session().abandon_after_fork();
    ::_exit(right && ::munmap(memory, kChunk) == 0 ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(memory[0], 1U);
  EXPECT_EQ(daemon_.load(memory), 1U);
  const auto seen = daemon_.announced();
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].length, abi::kPagingAddressEnd);
  daemon_.expect_all_ended();
  ::munmap(memory, kChunk);
}

// One thread changes the memory in every way while another accesses it: nothing of an old page is
// seen after a change, and no write is lost.
TEST_F(Paging, ConcurrentChangesAndAccesses) {
  constexpr std::size_t kBytes = 2 * kChunk;
  std::uint64_t* const memory = map(kBytes);
  std::atomic<std::uint64_t> round{0};
  std::atomic<bool> stop{false};
  std::thread peer([&] {
    for (std::size_t at = 0; !stop.load(); at = (at + 7 * kWords) % (kBytes / 8)) {
      const std::uint64_t before = round.load();
      const auto seen = daemon_.load(memory + at);
      // Zero, or the value of the round that was or is current.
      if (seen && *seen != 0) {
        EXPECT_GE(*seen, before);
        EXPECT_LE(*seen, round.load() + 1);
      }
    }
  });
  for (std::uint64_t i = 1; i <= 60; ++i) {
    switch (i % 3) {
      case 0:
        ASSERT_EQ(::madvise(memory, kBytes, MADV_DONTNEED), 0);
        break;
      case 1:
        ASSERT_EQ(::munmap(memory, kBytes), 0);
        ASSERT_EQ(::mmap(memory, kBytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
                  memory);
        break;
      default:
        ASSERT_EQ(::mmap(memory, kBytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                  memory);
        break;
    }
    round.store(i);
    for (std::size_t at = 0; at < kBytes / 8; at += kWords) {
      ASSERT_EQ(memory[at], 0U);
      memory[at] = i;
    }
    for (std::size_t at = 0; at < kBytes / 8; at += kWords) {
      ASSERT_EQ(memory[at], i);
    }
  }
  stop = true;
  peer.join();
  daemon_.expect_all_ended();
  ::munmap(memory, kBytes);
}

// Programs close all descriptors that they don't know, and get the numbers again for files of their
// own.
TEST(ClosedChannels, ChangesArentAnnouncedToTheProgramsConnection) {
  std::optional<PagingDaemon> daemon(std::in_place);
  std::uint64_t* const memory = map(2 * kChunk);
  memory[0] = 42;
  ASSERT_EQ(daemon->load(memory), 42U);
  const TakenNumber taken(daemon->invalidate_number());
  ::munmap(memory, kChunk);
  ::munmap(memory + kChunk / sizeof(*memory), kChunk);
  daemon.reset();
}

TEST(ClosedChannels, QuestionsArentAnsweredByTheProgramsConnection) {
  std::optional<PagingDaemon> daemon(std::in_place);
  std::uint64_t* const memory = map(kChunk);
  memory[0] = 42;
  ASSERT_EQ(daemon->load(memory), 42U);
  const TakenNumber taken(daemon->share_number());
  EXPECT_NONFATAL_FAILURE(daemon->ask(memory, kChunk), "no answer");
  daemon.reset();
  ::munmap(memory, kChunk);
}

TEST(ClosedChannels, ASessionEndsWithoutThem) {
  std::optional<PagingDaemon> daemon(std::in_place);
  std::uint64_t* const memory = map(kChunk);
  memory[0] = 42;
  ASSERT_EQ(daemon->load(memory), 42U);
  const TakenNumber share(daemon->share_number());
  const TakenNumber invalidate(daemon->invalidate_number());
  daemon.reset();
  ::munmap(memory, kChunk);
}

}  // namespace
}  // namespace uroce::test
