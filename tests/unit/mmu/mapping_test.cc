// How unused mappings are unmapped, and how much is populated at a time.

#include "mmu/pinned/mapping.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "mmu/pinned/program_memory.h"
#include "mmu/pinned/unmapper.h"
#include "shares/shares.h"
#include "tests/unit/mmu/pages.h"

namespace uroce::test {
namespace {

constexpr std::uint64_t kMebibyte = 1ULL << 20U;

UniqueFd sparse_file(std::uint64_t bytes) {
  UniqueFd file(::memfd_create("sparse", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  return file;
}

std::uint64_t made_of(const UniqueFd& file) {
  struct stat status = {};
  EXPECT_EQ(::fstat(file.get(), &status), 0);
  return static_cast<std::uint64_t>(status.st_blocks) * 512;
}

bool has_thread(const std::string& name) {
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string found;
    std::ifstream(thread.path() / "comm") >> found;
    if (found == name) {
      return true;
    }
  }
  return false;
}

// The account of a user who may have `mappings` mappings.
std::shared_ptr<Account> account_with(Shares& shares, std::uint64_t mappings) {
  shares.set_limits({.of_everybody = {{Limit::kMappings, mappings}}, .of_user = {}});
  return shares.of({.uid = ::geteuid() + 1});
}

Result<std::shared_ptr<const Mapping>> map(const UniqueFd& file, Account& account,
                                           std::uint64_t length) {
  MappingBudget work;
  return Mapping::make({.descriptor = file.get(), .offset = 0, .length = length}, account, &work);
}

TEST(MappingTest, AllPiecesOfARegionTogetherArePopulatedUpToABound) {
  ProgramMemory memory(make_private_account());
  const UniqueFd file = sparse_file(8 * MappingBudget::kPopulateMax);
  ASSERT_TRUE(memory.add_arena(UniqueFd(::fcntl(file.get(), F_DUPFD_CLOEXEC, 0)), kPage));
  constexpr std::uint64_t kPieces = 6, kLength = MappingBudget::kPopulateMax / 2;
  std::vector<abi::MemoryPiece> pieces;
  for (std::uint64_t i = 0; i < kPieces; ++i) {
    pieces.push_back({.address = kBase + i * kLength,
                      .length = kLength,
                      .offset = 2 * i * kLength,  // not contiguous, so each is a separate mapping
                      .map_start = 0,
                      .map_end = 0,
                      .kind = abi::PieceKind::kArena,
                      .source = 0});
  }
  const auto region = memory.make_region({.pd = 1,
                                          .access = kAccessLocalWrite,
                                          .address = kBase,
                                          .length = kPieces * kLength,
                                          .iova = kBase},
                                         pieces, {});
  ASSERT_TRUE(region) << region.error().message;
  EXPECT_EQ(made_of(file), MappingBudget::kPopulateMax);
}

TEST(MappingTest, IsUnmappedInTheBackground) {
  Shares shares;
  const auto account = account_with(shares, 3);
  const UniqueFd file = sparse_file(kMebibyte);
  ASSERT_TRUE(map(file, *account, kMebibyte)) << "mapped, and dropped at once";
  EXPECT_TRUE(has_thread("uroce-unmap"));
  while (account->used(Limit::kMappings) != 0) {
    std::this_thread::yield();
  }
  EXPECT_EQ(account->used(Limit::kAddressSpace), 0U);
}

// A user at the limit waits for pending unmappings instead of being refused.
TEST(MappingTest, MakesRoomForTheNextOne) {
  Shares shares;
  const auto account = account_with(shares, 1);
  const UniqueFd file = sparse_file(kMebibyte);
  for (int i = 0; i < 1'000; ++i) {
    const auto mapping = map(file, *account, kMebibyte);
    ASSERT_TRUE(mapping) << i << ": " << mapping.error().message;
    ASSERT_FALSE(map(file, *account, kMebibyte)) << "the first one is in use";
  }
}

TEST(MappingTest, TheRoomMadePerCommandIsBounded) {
  Shares shares;
  const auto account = account_with(shares, 4);
  const UniqueFd file = sparse_file(4 * MappingBudget::kUnmapMax);
  std::uint64_t left = MappingBudget::kUnmapMax;
  ASSERT_TRUE(map(file, *account, 2 * MappingBudget::kUnmapMax));
  EXPECT_FALSE(Unmapper::of_process().make_room(account->number(), &left)) << "too large";
  EXPECT_EQ(left, MappingBudget::kUnmapMax);
  EXPECT_FALSE(Unmapper::of_process().make_room(account->number() + 1, &left)) << "another user's";
  while (account->used(Limit::kMappings) != 0) {
    std::this_thread::yield();
  }
}

// Handing over a few pages would take longer than unmapping them.
TEST(MappingTest, OfAFewPagesIsUnmappedAtOnce) {
  Shares shares;
  const auto account = account_with(shares, 1);
  const UniqueFd file = sparse_file(kMebibyte);
  ASSERT_TRUE(map(file, *account, 4 * kPage));
  EXPECT_EQ(account->used(Limit::kMappings), 0U);
}

}  // namespace
}  // namespace uroce::test
