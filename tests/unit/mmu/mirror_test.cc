#include "mmu/mirror/mirror.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "tests/unit/mmu/paged_program.h"
#include "tests/unit/mmu/pages.h"

namespace uroce::test {
namespace {

class MirrorTest : public testing::Test {
 protected:
  Access find(std::uint64_t address, std::uint64_t length = 8, bool write = false) {
    return program_.mirror->find(address, length, write, &span_);
  }
  void describe(std::uint64_t first = kBase, std::uint64_t end = kBase + Mirror::kChunk) {
    const auto counts = program_.mirror->changes();
    const MirrorPiece piece = program_.everything();
    program_.mirror->describe(first, end, {&piece, 1}, counts);
  }
  void populate(std::uint64_t first, std::uint64_t end, bool write = true) {
    const Mirror::PageRun run = program_.mirror->find_run(first, end, write);
    ASSERT_EQ(run.end, end);
    ASSERT_EQ(program_.mirror->populate(run, write), Mirror::Populated::kDone);
  }
  Mirror::State state(std::uint64_t page, bool write = false) {
    return program_.mirror->find_run(page, page + kPage, write).state;
  }

  Quiescence quiescence_;
  PagedProgram program_{quiescence_};
  Span span_;
};

TEST_F(MirrorTest, NothingIsResidentAtFirst) {
  EXPECT_EQ(find(kBase), Access::kNotResident);
  EXPECT_EQ(find(~std::uint64_t{0} - 100), Access::kNotResident);
  EXPECT_EQ(state(kBase), Mirror::State::kUnknown);
}

TEST_F(MirrorTest, ShowsTheProgramsPages) {
  std::memcpy(program_.memory + 5 * kPage + 10, "hello", 5);
  describe();
  EXPECT_EQ(state(kBase + 5 * kPage), Mirror::State::kAbsent);
  EXPECT_EQ(find(kBase + 5 * kPage + 10), Access::kNotResident);
  populate(kBase + 5 * kPage, kBase + 7 * kPage);
  ASSERT_EQ(find(kBase + 5 * kPage + 10, 3 * kPage), Access::kGranted);
  EXPECT_EQ(std::memcmp(span_.host, "hello", 5), 0);
  EXPECT_EQ(span_.length, 2 * kPage - 10) << "the third page isn't resident";
  ASSERT_EQ(find(kBase + 5 * kPage, 8, true), Access::kGranted);
  std::memcpy(span_.host, "world", 5);
  EXPECT_EQ(std::memcmp(program_.memory + 5 * kPage, "world", 5), 0);
  EXPECT_EQ(program_.mirror->resident_bytes(), 2 * kPage);
}

TEST_F(MirrorTest, ReadOnlyPagesAreReadOnly) {
  program_.read_only = true;
  describe();
  populate(kBase, kBase + kPage, false);
  EXPECT_EQ(find(kBase), Access::kGranted);
  EXPECT_EQ(find(kBase, 8, true), Access::kNotResident);
  EXPECT_EQ(state(kBase, true), Mirror::State::kNoWrite);
}

// The kernel finds out that it can't map the file after it has unmapped what was there.
TEST_F(MirrorTest, AFileThatCannotBeMappedLeavesNoHoleInTheReservation) {
  const UniqueFd file(::memfd_create("huge", MFD_CLOEXEC | MFD_HUGETLB));
  if (!file.valid()) {
    GTEST_SKIP() << "this kernel has no huge pages";
  }
  ASSERT_EQ(::ftruncate(file.get(), 2 * Mirror::kChunk), 0);
  describe();
  populate(kBase, kBase + kPage);
  ASSERT_EQ(find(kBase), Access::kGranted);
  std::byte* const next = span_.host + Mirror::kChunk;
  const std::uint64_t address = kBase + Mirror::kChunk;
  const MirrorPiece piece{.address = address,
                          .length = Mirror::kChunk,
                          .descriptor = file.get(),
                          .offset = kPage,  // not a multiple of its pages' size
                          .page_size = Mirror::kChunk,
                          .write = true};
  program_.mirror->describe(address, address + Mirror::kChunk, {&piece, 1},
                            program_.mirror->changes());
  EXPECT_EQ(
      ::mmap(next, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
      MAP_FAILED);
  EXPECT_EQ(errno, EEXIST);
}

TEST_F(MirrorTest, InvalidatedPagesAreGoneAndUnknown) {
  describe();
  populate(kBase, kBase + 4 * kPage);
  program_.mirror->invalidate(1, kBase + kPage, kBase + 2 * kPage, true);
  EXPECT_EQ(find(kBase), Access::kGranted);
  EXPECT_EQ(find(kBase + kPage), Access::kNotResident);
  EXPECT_EQ(state(kBase + kPage), Mirror::State::kBlocked);
  program_.mirror->unblock(1);
  EXPECT_EQ(state(kBase + kPage), Mirror::State::kUnknown);
  EXPECT_EQ(find(kBase + 2 * kPage), Access::kGranted);
  EXPECT_EQ(program_.mirror->resident_bytes(), 3 * kPage);
}

TEST_F(MirrorTest, DroppedPagesKeepTheirDescription) {
  describe();
  populate(kBase, kBase + kPage);
  program_.mirror->invalidate(1, kBase, kBase + kPage, false);
  program_.mirror->unblock(1);
  EXPECT_EQ(state(kBase), Mirror::State::kAbsent);
}

TEST_F(MirrorTest, AnOldDescriptionIsIgnored) {
  const auto counts = program_.mirror->changes();
  program_.mirror->invalidate(1, kBase, kBase + kPage, true);
  program_.mirror->unblock(1);
  const MirrorPiece piece = program_.everything();
  program_.mirror->describe(kBase, kBase + Mirror::kChunk, {&piece, 1}, counts);
  EXPECT_EQ(state(kBase), Mirror::State::kUnknown);
  EXPECT_EQ(state(kBase + 3 * kPage), Mirror::State::kAbsent)
      << "it is still valid for other pages";
}

TEST_F(MirrorTest, PagesBeingInvalidatedAreNotDescribed) {
  program_.mirror->invalidate(1, kBase, kBase + kPage, true);
  const auto counts = program_.mirror->changes();
  const MirrorPiece piece = program_.everything();
  program_.mirror->describe(kBase, kBase + Mirror::kChunk, {&piece, 1}, counts);
  EXPECT_EQ(state(kBase + kPage), Mirror::State::kAbsent);
  program_.mirror->unblock(1);
  EXPECT_EQ(state(kBase), Mirror::State::kUnknown);
  EXPECT_TRUE(program_.mirror->changed(counts, kBase, kBase + kPage))
      << "so the program is asked again";
}

TEST_F(MirrorTest, DescriptionsOlderThanTheHistoryAreOutdated) {
  const auto counts = program_.mirror->changes();
  for (int i = 0; i < 2'000; ++i) {
    program_.mirror->invalidate(1, kBase + Mirror::kChunk, kBase + 2 * Mirror::kChunk, true);
    program_.mirror->unblock(1);
  }
  EXPECT_TRUE(program_.mirror->changed(counts, kBase, kBase + kPage));
}

TEST_F(MirrorTest, EvictionTakesTheColdestAndKeepsTheContent) {
  describe(kBase, kBase + 2 * Mirror::kChunk);
  std::memcpy(program_.memory, "cold", 4);
  populate(kBase, kBase + 2 * kPage);
  populate(kBase + Mirror::kChunk, kBase + Mirror::kChunk + kPage);
  program_.mirror->tick();
  ASSERT_EQ(find(kBase + Mirror::kChunk), Access::kGranted);
  EXPECT_EQ(program_.mirror->evict(kPage), 2 * kPage);
  EXPECT_EQ(find(kBase), Access::kNotResident);
  EXPECT_EQ(find(kBase + Mirror::kChunk), Access::kGranted);
  EXPECT_EQ(program_.mirror->resident_bytes(), kPage);
  populate(kBase, kBase + kPage);
  ASSERT_EQ(find(kBase), Access::kGranted);
  EXPECT_EQ(std::memcmp(span_.host, "cold", 4), 0);
}

TEST_F(MirrorTest, MemoryBeyondTheEndOfItsFileFails) {
  describe();
  ASSERT_EQ(::ftruncate(program_.memfd.get(), 0), 0);
  EXPECT_EQ(program_.mirror->populate(program_.mirror->find_run(kBase, kBase + kPage, true), true),
            Mirror::Populated::kFailed);
}

TEST_F(MirrorTest, SyncedPagesAreOnDisk) {
  char name[] = "/var/tmp/uroce-mirror-XXXXXX";
  const UniqueFd file(::mkstemp(name));
  ASSERT_TRUE(file.valid());
  const UniqueFd direct(::open(name, O_RDONLY | O_DIRECT | O_CLOEXEC));
  ::unlink(name);
  ASSERT_EQ(::ftruncate(file.get(), Mirror::kChunk), 0);
  const MirrorPiece piece{.address = kBase,
                          .length = Mirror::kChunk,
                          .descriptor = file.get(),
                          .write = true,
                          .durable = true};
  Mirror& mirror = *program_.mirror;
  mirror.describe(kBase, kBase + Mirror::kChunk, {&piece, 1}, mirror.changes());
  populate(kBase, kBase + kPage);
  ASSERT_EQ(find(kBase, kPage, true), Access::kGranted);
  std::memset(span_.host, 0x5A, kPage);
  mirror.evict(kPage);
  EXPECT_EQ(mirror.sync(kBase + 100, kBase + 200), Access::kGranted);
  if (!direct.valid()) {
    GTEST_SKIP() << "this file system has no O_DIRECT";
  }
  alignas(kPage) std::array<std::byte, kPage> on_disk{};
  ASSERT_EQ(::pread(direct.get(), on_disk.data(), kPage, 0), static_cast<ssize_t>(kPage));
  EXPECT_TRUE(std::all_of(on_disk.begin(), on_disk.end(),
                          [](std::byte byte) { return byte == std::byte{0x5A}; }));
}

TEST_F(MirrorTest, AnonymousMemoryCannotBeSynced) {
  EXPECT_EQ(program_.mirror->sync(kBase, kBase + kPage), Access::kGranted) << "nothing was written";
  describe();
  EXPECT_EQ(program_.mirror->sync(kBase, kBase + kPage), Access::kNoRight);
  EXPECT_EQ(program_.mirror->sync(0, Mirror::kAddressEnd), Access::kNoRight);
}

TEST_F(MirrorTest, WorkersPopulatePagesThatNeedNoWaiting) {
  struct sysinfo facts = {};
  ASSERT_EQ(::sysinfo(&facts), 0);
  if (facts.totalswap != 0) {
    GTEST_SKIP() << "this machine has swap space";
  }
  Mirror& mirror = *program_.mirror;
  EXPECT_FALSE(mirror.populate_inline(kBase, true)) << "the program has to be asked";
  describe();
  ASSERT_TRUE(mirror.populate_inline(kBase + 100, true));
  EXPECT_EQ(find(kBase, kPage, true), Access::kGranted);
  EXPECT_EQ(find(kBase + kPage), Access::kNotResident);
  EXPECT_EQ(mirror.resident_bytes(), kPage);
  mirror.invalidate(1, kBase + kPage, kBase + 2 * kPage, false);
  EXPECT_FALSE(mirror.populate_inline(kBase + kPage, false)) << "it is being invalidated";
  mirror.unblock(1);
  EXPECT_TRUE(mirror.populate_inline(kBase + kPage, false));
  mirror.close();
  EXPECT_FALSE(mirror.populate_inline(kBase + 2 * kPage, true));
}

TEST_F(MirrorTest, PagesInvalidatedSinceTheLookAreLookedUpAgain) {
  describe();
  Mirror& mirror = *program_.mirror;
  const Mirror::PageRun run = mirror.find_run(kBase, kBase + kPage, true);
  mirror.invalidate(1, kBase, kBase + kPage, true);
  mirror.unblock(1);
  EXPECT_EQ(mirror.populate(run, true), Mirror::Populated::kChanged);
  EXPECT_EQ(find(kBase), Access::kNotResident);
}

// The number of mappings of the program's memory in this process: the program's own, and the
// mirror's.
std::size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    count += line.find("paged-program") != std::string::npos ? 1 : 0;
  }
  return count;
}

TEST_F(MirrorTest, AChunkWithoutDescriptionsIsFreed) {
  Mirror& mirror = *program_.mirror;
  EXPECT_EQ(state(kBase), Mirror::State::kUnknown);
  EXPECT_EQ(mirror.chunk_count(), 0U) << "a lookup makes no chunk";
  describe(kBase, kBase + 2 * Mirror::kChunk);
  populate(kBase, kBase + kPage);
  EXPECT_EQ(mirror.chunk_count(), 2U);
  EXPECT_EQ(mappings(), 2U);
  mirror.invalidate(1, kBase, kBase + Mirror::kChunk / 2, true);
  EXPECT_EQ(mirror.chunk_count(), 2U) << "half of it is still described";
  mirror.invalidate(2, kBase + Mirror::kChunk / 2, kBase + 2 * Mirror::kChunk, true);
  EXPECT_EQ(mirror.chunk_count(), 0U);
  EXPECT_EQ(mappings(), 1U);
  mirror.unblock(1);
  mirror.unblock(2);
  describe();
  populate(kBase, kBase + kPage);
  EXPECT_EQ(find(kBase, 8, true), Access::kGranted);
}

TEST_F(MirrorTest, FilesOnDisksStayForALaterFlush) {
  Mirror& mirror = *program_.mirror;
  MirrorPiece piece = program_.everything();
  piece.durable = true;
  mirror.describe(kBase, kBase + Mirror::kChunk, {&piece, 1}, mirror.changes());
  mirror.invalidate(1, kBase, kBase + Mirror::kChunk, true);
  EXPECT_EQ(mirror.chunk_count(), 1U);
  EXPECT_EQ(mirror.sync(kBase, kBase + kPage), Access::kGranted);
}

TEST_F(MirrorTest, MemoryInTooManyPartsIsReachedTheSlowWay) {
  Mirror& mirror = *program_.mirror;
  const std::size_t most = mappings_of_a_process() / 4;
  std::uint64_t at = kBase;
  for (std::size_t parts = 0; parts <= most; parts += Mirror::kPagesInChunk) {
    std::vector<MirrorPiece> pieces;
    for (std::size_t page = 0; page < Mirror::kPagesInChunk; page += 2) {
      pieces.push_back(program_.everything());
      pieces.back().address = at + page * kPage;
      pieces.back().length = kPage;
    }
    mirror.describe(at, at + Mirror::kChunk, pieces, mirror.changes());
    at += Mirror::kChunk;
  }
  EXPECT_EQ(mappings(), most / 2 + 1) << "the gaps are mappings, too";
  const std::uint64_t last = at - 2 * kPage;
  EXPECT_EQ(state(last), Mirror::State::kAbsent);
  EXPECT_EQ(mirror.populate(mirror.find_run(last, last + kPage, true), true),
            Mirror::Populated::kFailed)
      << "it needs the slow way, which this program doesn't have";
}

// The kernel merges contiguous mappings; a piece in each chunk, or a different file in each, takes
// a mapping each.
TEST_F(MirrorTest, NoncontiguousPiecesAreSeparateMappings) {
  Mirror& mirror = *program_.mirror;
  const std::size_t most = mappings_of_a_process() / 4;
  MirrorPiece piece = program_.everything();
  piece.length = kPage;
  std::uint64_t at = kBase;
  for (std::size_t chunk = 0; chunk < most + 8; ++chunk, at += Mirror::kChunk) {
    piece.address = at;
    mirror.describe(at, at + Mirror::kChunk, {&piece, 1}, mirror.changes());
  }
  EXPECT_EQ(mappings(), most / 2 + 1) << "the gaps are mappings, too";
  const std::uint64_t last = at - Mirror::kChunk;
  EXPECT_EQ(mirror.populate(mirror.find_run(last, last + kPage, true), true),
            Mirror::Populated::kFailed);
}

TEST_F(MirrorTest, ContiguousChunksAreOneMapping) {
  Mirror& mirror = *program_.mirror;
  constexpr std::uint64_t kChunks = 20'000;  // more than the number of mappings allowed
  ASSERT_EQ(::ftruncate(program_.memfd.get(), kChunks * Mirror::kChunk), 0);
  MirrorPiece piece = program_.everything();
  piece.length = kChunks * Mirror::kChunk;
  mirror.describe(kBase, kBase + piece.length, {&piece, 1}, mirror.changes());
  EXPECT_LE(mappings(), 1 + piece.length / Mirror::kSegment + 1);
  const std::uint64_t last = kBase + piece.length - kPage;
  EXPECT_EQ(mirror.populate(mirror.find_run(last, last + kPage, true), true),
            Mirror::Populated::kDone);
}

TEST_F(MirrorTest, AnOutdatedAnswerMakesNoChunk) {
  Mirror& mirror = *program_.mirror;
  const std::uint64_t asked = mirror.changes();
  mirror.invalidate(1, kBase, kBase + Mirror::kChunk, true);
  const MirrorPiece piece = program_.everything();
  mirror.describe(kBase, kBase + Mirror::kChunk, {&piece, 1}, asked);
  EXPECT_EQ(mirror.chunk_count(), 0U);
}

TEST_F(MirrorTest, TheAddressRangesOfAProgramAreBounded) {
  Mirror& mirror = *program_.mirror;
  std::size_t segments = 0;
  const auto describe_at = [&](std::uint64_t address) {
    MirrorPiece piece = program_.everything();
    piece.address = address;
    piece.length = kPage;
    mirror.describe(address, address + Mirror::kChunk, {&piece, 1}, mirror.changes());
  };
  for (; segments < Mirror::kSegmentsMax && !mirror.full(); ++segments) {
    describe_at(segments * Mirror::kSegment);
  }
  EXPECT_GT(segments, 1'000U);
  describe_at(segments * Mirror::kSegment);
  EXPECT_TRUE(mirror.full());
  EXPECT_EQ(state(segments * Mirror::kSegment), Mirror::State::kUnknown);
  EXPECT_EQ(state(0), Mirror::State::kAbsent);
}

TEST_F(MirrorTest, WithFaultsOnlyWorkersPopulateNothing) {
  describe();
  program_.mirror->faults_only();
  EXPECT_FALSE(program_.mirror->populate_inline(kBase, true));
}

TEST_F(MirrorTest, AdoptsOnlyPagesThatArePresent) {
  describe();
  program_.memory[2 * kPage] = std::byte{1};
  program_.mirror->adopt_present(kBase, kBase + 8 * kPage);
  EXPECT_EQ(find(kBase + 2 * kPage), Access::kGranted);
  EXPECT_EQ(find(kBase + 3 * kPage), Access::kNotResident);
}

}  // namespace
}  // namespace uroce::test
