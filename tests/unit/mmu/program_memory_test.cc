#include "mmu/pinned/program_memory.h"
#include "shares/shares.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "mmu/copies/copy.h"
#include "tests/unit/mmu/pages.h"
#include "tests/unit/temporary_folder.h"

namespace uroce::test {
namespace {

using abi::MemoryPiece;
using abi::PieceKind;

UniqueFd memfd(std::uint64_t bytes, int seals) {
  UniqueFd file(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(::fcntl(file.get(), F_ADD_SEALS, seals), 0);
  return file;
}

MemoryPiece piece(PieceKind kind, std::uint64_t first_page, std::uint64_t pages,
                  std::uint64_t offset = 0) {
  return {.address = kBase + first_page * kPage,
          .length = pages * kPage,
          .offset = offset,
          .map_start = 0,
          .map_end = 0,
          .kind = kind,
          .source = 0};
}

class ProgramMemoryTest : public ::testing::Test {
 protected:
  int error_of(std::vector<MemoryPiece> pieces, std::uint64_t address = kBase,
               std::uint64_t length = 2 * kPage, std::vector<int> descriptors = {},
               std::uint32_t access = kAccessLocalWrite) {
    auto region = memory_.make_region(
        {.pd = 1, .access = access, .address = address, .length = length, .iova = address}, pieces,
        descriptors,
        ProgramMemory::open(ProgramProcess(::getpid(), ::getuid(), ::getgid()), pieces, true));
    return region ? 0 : region.error().code;
  }

  ProgramMemory memory_{make_private_account()};
};

TEST_F(ProgramMemoryTest, ArenasHaveToBeSealed) {
  EXPECT_TRUE(memory_.add_arena(memfd(1 << 20, F_SEAL_SHRINK), kPage));
  auto unsealed = memory_.add_arena(memfd(1 << 20, F_SEAL_GROW), kPage);
  ASSERT_FALSE(unsealed);
  EXPECT_EQ(unsealed.error().code, EINVAL);
  EXPECT_FALSE(memory_.add_arena(UniqueFd(::open("/etc/passwd", O_RDONLY | O_CLOEXEC)), kPage));
  EXPECT_FALSE(memory_.add_arena(UniqueFd(), kPage));
  EXPECT_FALSE(memory_.add_arena(memfd(1 << 20, F_SEAL_SHRINK), 2 << 20));
}

TEST_F(ProgramMemoryTest, ArenasAreBounded) {
  for (std::size_t i = 0; i < ProgramMemory::kArenasMax; ++i) {
    ASSERT_TRUE(memory_.add_arena(memfd(kPage, F_SEAL_SHRINK), kPage));
  }
  auto more = memory_.add_arena(memfd(kPage, F_SEAL_SHRINK), kPage);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, ENOSPC);
}

TEST_F(ProgramMemoryTest, AHostileProgramsPiecesAreRefused) {
  ASSERT_TRUE(memory_.add_arena(memfd(16 * kPage, F_SEAL_SHRINK), kPage));
  const auto arena = [](std::uint64_t first, std::uint64_t pages, std::uint64_t offset = 0) {
    return piece(PieceKind::kArena, first, pages, offset);
  };
  EXPECT_EQ(error_of({arena(0, 2)}), 0);
  EXPECT_EQ(error_of({}), EINVAL);
  EXPECT_EQ(error_of({arena(0, 1)}), EINVAL);
  EXPECT_EQ(error_of({arena(1, 2)}), EINVAL);
  EXPECT_EQ(error_of({arena(0, 1), arena(2, 1)}), EINVAL);
  EXPECT_EQ(error_of({arena(0, 1), arena(0, 2)}), EINVAL);
  EXPECT_EQ(error_of({arena(0, 2), arena(2, 1)}), EINVAL);
  EXPECT_EQ(error_of({arena(0, 2, 15 * kPage)}), EINVAL);
  EXPECT_EQ(error_of({arena(0, 2, 0ULL - kPage)}), EINVAL);
  EXPECT_EQ(error_of({arena(0, 2, 7)}), EINVAL);
  EXPECT_EQ(error_of({arena(0, ~0ULL / kPage)}), EINVAL);
  EXPECT_EQ(error_of({arena(0, 2)}, kBase, 0), EINVAL);
  EXPECT_EQ(error_of({arena(0, 2)}, kBase, ~0ULL), EINVAL);
  MemoryPiece stranger = arena(0, 2);
  stranger.source = 1;
  EXPECT_EQ(error_of({stranger}), EINVAL);
  stranger.kind = static_cast<PieceKind>(99);
  EXPECT_EQ(error_of({stranger}), EINVAL);
  EXPECT_EQ(error_of({piece(PieceKind::kDescriptor, 0, 2)}), EINVAL);
  EXPECT_EQ(error_of({piece(PieceKind::kDescriptor, 0, 2)}, kBase, 2 * kPage, {-1}), EOPNOTSUPP);
}

// Locked memory is charged by the region's length, so pages beyond it would be free.
TEST_F(ProgramMemoryTest, PiecesThatReachBeyondTheRegionAreRefused) {
  ASSERT_TRUE(memory_.add_arena(memfd(16 * kPage, F_SEAL_SHRINK), kPage));
  const MemoryPiece wide = piece(PieceKind::kArena, 0, 16);
  EXPECT_EQ(error_of({wide}, kBase, kPage), EINVAL);
  EXPECT_EQ(error_of({wide}, kBase + kPage, 15 * kPage), EINVAL);
  EXPECT_EQ(error_of({wide}, kBase, 15 * kPage), EINVAL);
  EXPECT_EQ(error_of({wide}, kBase + kPage - 1, 14 * kPage + 2), 0) << "part of each page";
  EXPECT_EQ(error_of({wide}, kBase, 15 * kPage + 1), 0);
}

TEST_F(ProgramMemoryTest, DescriptorsAreCheckedAsFiles) {
  const UniqueFd file = memfd(2 * kPage, 0);
  const UniqueFd device(::open("/dev/zero", O_RDWR | O_CLOEXEC));
  const UniqueFd constant(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const auto whole = piece(PieceKind::kDescriptor, 0, 2);
  EXPECT_EQ(error_of({whole}, kBase, 2 * kPage, {file.get()}), 0);
  EXPECT_EQ(error_of({piece(PieceKind::kDescriptor, 0, 2, kPage)}, kBase, 2 * kPage, {file.get()}),
            EFAULT);
  EXPECT_EQ(error_of({whole}, kBase, 2 * kPage, {device.get()}), EOPNOTSUPP);
  EXPECT_EQ(error_of({whole}, kBase, 2 * kPage, {constant.get()}), EFAULT);
  EXPECT_EQ(error_of({whole}, kBase, 2 * kPage, {constant.get()}, 0), 0);
}

// A program may map files that it can only read. The daemon, which can write to them, must not do
// so on the program's behalf.
TEST_F(ProgramMemoryTest, MapFilesGivesNoMoreThanTheProgramHas) {
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::ftruncate(file.get(), kPage), 0);
  file.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  void* const mapped = ::mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE, file.get(), 0);
  MemoryPiece map_files = piece(PieceKind::kMapFiles, 0, 1);
  map_files.address = reinterpret_cast<std::uintptr_t>(mapped);
  map_files.map_start = map_files.address;
  map_files.map_end = map_files.address + kPage;
  auto region =
      memory_.make_region({.pd = 1,
                           .access = kAccessLocalWrite,
                           .address = map_files.address,
                           .length = kPage,
                           .iova = 0},
                          {&map_files, 1}, {},
                          ProgramMemory::open(ProgramProcess(::getpid(), ::getuid(), ::getgid()),
                                              {&map_files, 1}, true));
  ASSERT_TRUE(region);
  EXPECT_EQ((*region)->remote_pieces(), 1U);
  ::munmap(mapped, kPage);
}

// A hostile program names one mapping in each piece, or very many mappings, to have the daemon use
// up its descriptors.
TEST_F(ProgramMemoryTest, MapFilesAreOpenedOncePerMappingAndAreBounded) {
  constexpr std::size_t kPieces = 2 * ProgramMemory::kFilesMax;
  const UniqueFd file = memfd(kPieces * kPage, 0);
  void* const mapped =
      ::mmap(nullptr, kPieces * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  const auto first = reinterpret_cast<std::uintptr_t>(mapped);
  std::vector<MemoryPiece> pieces(kPieces, piece(PieceKind::kMapFiles, 0, 1));
  for (std::size_t i = 0; i < kPieces; ++i) {
    pieces[i].address = first + i * kPage;
    pieces[i].offset = i * kPage;
    pieces[i].map_start = first;
    pieces[i].map_end = first + kPieces * kPage;
  }
  const ProgramProcess own(::getpid(), ::getuid(), ::getgid());
  EXPECT_EQ(ProgramMemory::files_to_open(pieces), 1U);
  auto opened = ProgramMemory::open(own, pieces, true);
  ASSERT_EQ(opened.files.size(), 1U);
  if (opened.files.front().descriptor.valid()) {  // requires a privilege
    auto region = memory_.make_region({.pd = 1,
                                       .access = kAccessLocalWrite,
                                       .address = first,
                                       .length = kPieces * kPage,
                                       .iova = 0},
                                      pieces, {}, std::move(opened));
    ASSERT_TRUE(region) << region.error().message;
    EXPECT_EQ((*region)->remote_pieces(), 0U);
    static_cast<volatile char*>(mapped)[(kPieces - 1) * kPage] = 7;
    Span span;
    ASSERT_EQ((*region)->translate((kPieces - 1) * kPage, 1, true, &span), Access::kGranted);
    EXPECT_EQ(*span.host, std::byte{7});
  }
  for (std::size_t i = 0; i < kPieces; ++i) {
    pieces[i].map_end = pieces[i].address + kPage;
  }
  EXPECT_EQ(ProgramMemory::files_to_open(pieces), ProgramMemory::kFilesMax);
  opened = ProgramMemory::open(own, pieces, true);
  EXPECT_EQ(opened.files.size(), ProgramMemory::kFilesMax);
  EXPECT_TRUE(opened.memory.has_value()) << "the others are reached through it";
  ::munmap(mapped, kPieces * kPage);
}

// Two mappings beside each other, with two pieces each.
TEST_F(ProgramMemoryTest, EachMappingHasItsOwnFile) {
  const UniqueFd one = memfd(2 * kPage, 0), other = memfd(2 * kPage, 0);
  auto* const place =
      static_cast<char*>(::mmap(nullptr, 4 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  std::vector<MemoryPiece> pieces;
  for (const UniqueFd* file : {&one, &other}) {
    char* const start = place + pieces.size() * kPage;
    ASSERT_NE(
        ::mmap(start, 2 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file->get(), 0),
        MAP_FAILED);
    for (const std::uint64_t page : {0U, 1U}) {
      MemoryPiece next = piece(PieceKind::kMapFiles, 0, 1, page * kPage);
      next.map_start = reinterpret_cast<std::uintptr_t>(start);
      next.map_end = next.map_start + 2 * kPage;
      next.address = next.map_start + page * kPage;
      pieces.push_back(next);
      start[page * kPage] = static_cast<char>(pieces.size());
    }
  }
  auto opened =
      ProgramMemory::open(ProgramProcess(::getpid(), ::getuid(), ::getgid()), pieces, true);
  ASSERT_EQ(opened.files.size(), 2U);
  const bool may_open = opened.files.front().descriptor.valid();
  auto region = memory_.make_region({.pd = 1,
                                     .access = kAccessLocalWrite,
                                     .address = pieces.front().address,
                                     .length = 4 * kPage,
                                     .iova = 0},
                                    pieces, {}, std::move(opened));
  ASSERT_TRUE(region) << region.error().message;
  for (std::uint64_t page = 0; may_open && page < 4; ++page) {
    Span span;
    ASSERT_EQ((*region)->translate(page * kPage, 1, true, &span), Access::kGranted);
    ASSERT_NE(span.host, nullptr);
    EXPECT_EQ(static_cast<std::uint64_t>(*span.host), page + 1);
  }
  ::munmap(place, 4 * kPage);
}

TEST_F(ProgramMemoryTest, PiecesOfOneArenaShareAMapping) {
  ASSERT_TRUE(memory_.add_arena(memfd(16 * kPage, F_SEAL_SHRINK), kPage));
  const MemoryPiece all = piece(PieceKind::kArena, 0, 16);
  const ProgramMemory::Request request{
      .pd = 1, .access = kAccessLocalWrite, .address = kBase, .length = 16 * kPage, .iova = kBase};
  auto first = memory_.make_region(request, {&all, 1}, {});
  auto second = memory_.make_region(request, {&all, 1}, {});
  ASSERT_TRUE(first && second);
  Span one;
  Span two;
  ASSERT_EQ((*first)->translate(kBase, 1, true, &one), Access::kGranted);
  ASSERT_EQ((*second)->translate(kBase, 1, true, &two), Access::kGranted);
  EXPECT_EQ(one.host, two.host);
}

TEST_F(ProgramMemoryTest, RegionsOutliveTheSession) {
  auto session = std::make_unique<ProgramMemory>(make_private_account());
  ASSERT_TRUE(session->add_arena(memfd(kPage, F_SEAL_SHRINK), kPage));
  const MemoryPiece all = piece(PieceKind::kArena, 0, 1);
  auto region = session->make_region(
      {.pd = 1, .access = kAccessLocalWrite, .address = kBase, .length = 100, .iova = kBase},
      {&all, 1}, {});
  ASSERT_TRUE(region);
  session.reset();
  Span span;
  ASSERT_EQ((*region)->translate(kBase, 100, true, &span), Access::kGranted);
  EXPECT_EQ(span.length, 100U);
  const std::byte value{9};
  span.length = 1;
  EXPECT_TRUE(copy_to(**region, span, &value));
}

TEST_F(ProgramMemoryTest, AForeignProcessMemoryIsRefused) {
  ProgramMemory stranger(make_private_account());
  const MemoryPiece all = piece(PieceKind::kProcMem, 0, 1);
  auto region = stranger.make_region(
      {.pd = 1, .access = 0, .address = kBase, .length = kPage, .iova = kBase}, {&all, 1}, {},
      ProgramMemory::open(ProgramProcess(::getpid(), ::getuid() + 1, ::getgid()), {&all, 1},
                          false));
  ASSERT_FALSE(region);
  EXPECT_EQ(region.error().code, EPERM);
}

}  // namespace
}  // namespace uroce::test
