// A program with a mirror of thousands of chunks: an invalidation of all of it is done in slices,
// and its user is charged for the chunks' metadata.

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>

#include "tests/unit/mmu/paged_program.h"
#include "tests/unit/mmu/pages.h"

namespace uroce::test {
namespace {

constexpr std::size_t kSlicedChunks = 2 * Mirror::kSliceChunks + 10;
constexpr std::uint64_t kSlicedEnd = kBase + kSlicedChunks * Mirror::kChunk;

class MirrorSlices : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::ftruncate(program_.memfd.get(), kSlicedChunks * Mirror::kChunk), 0);
    MirrorPiece piece = program_.everything();
    piece.length = kSlicedChunks * Mirror::kChunk;
    mirror_.describe(kBase, kSlicedEnd, {&piece, 1}, mirror_.changes());
    ASSERT_EQ(mirror_.chunk_count(), kSlicedChunks);
  }
  void touch_each_chunk() {
    for (std::uint64_t at = kBase; at < kSlicedEnd; at += Mirror::kChunk) {
      ASSERT_EQ(mirror_.populate(mirror_.find_run(at, at + kPage, true), true),
                Mirror::Populated::kDone);
    }
  }
  bool resident(std::uint64_t address) {
    Span span;
    return mirror_.find(address, 1, true, &span) == Access::kGranted;
  }
  std::size_t slices(Mirror::Invalidation invalidation) {
    std::size_t count = 1;
    while (mirror_.clear_next_slice(invalidation)) {
      ++count;
    }
    return count;
  }

  Quiescence quiescence_;
  PagedProgram program_{quiescence_};
  Mirror& mirror_ = *program_.mirror;
};

TEST_F(MirrorSlices, ChunksPerSliceAreBoundedAndAllIsBlockedAtOnce) {
  Mirror::Invalidation all = mirror_.begin_invalidation(1, 0, Mirror::kAddressEnd, true);
  EXPECT_EQ(mirror_.find_run(kSlicedEnd - kPage, kSlicedEnd, true).state, Mirror::State::kBlocked);
  std::size_t left = kSlicedChunks;
  for (bool more = true; more;) {
    more = mirror_.clear_next_slice(all);
    EXPECT_LE(left - mirror_.chunk_count(), Mirror::kSliceChunks);
    left = mirror_.chunk_count();
  }
  EXPECT_EQ(left, 0U);
  EXPECT_FALSE(all.in_vain);
}

TEST_F(MirrorSlices, ChunksStayAccessibleUntilTheirSlice) {
  touch_each_chunk();
  Mirror::Invalidation all = mirror_.begin_invalidation(1, kBase, kSlicedEnd, false);
  EXPECT_TRUE(mirror_.clear_next_slice(all));
  EXPECT_FALSE(resident(kBase));
  EXPECT_TRUE(resident(kSlicedEnd - Mirror::kChunk));
  while (mirror_.clear_next_slice(all)) {
  }
  EXPECT_FALSE(resident(kSlicedEnd - Mirror::kChunk));
}

TEST_F(MirrorSlices, NothingIsClearedTwice) {
  touch_each_chunk();
  EXPECT_GT(slices(mirror_.begin_invalidation(1, kBase, kSlicedEnd, false)), 2U);
  EXPECT_EQ(slices(mirror_.begin_invalidation(2, kBase, kSlicedEnd, false)), 1U);
  EXPECT_EQ(mirror_.chunk_count(), kSlicedChunks);
}

// Chunks that consist of metadata only: 600 bytes each for a single byte that a program names.
TEST_F(MirrorSlices, MetadataIsCharged) {
  Shares shares;
  constexpr std::uint64_t kNotes = 200'000;
  shares.set_limits({.of_everybody = {{Limit::kPagingMemory, kNotes}}, .of_user = {}});
  const auto account = shares.of({.uid = ::geteuid() + 1});
  {
    Mirror mirror(quiescence_, UniqueFd(), 0, account);
    ASSERT_TRUE(mirror.usable());
    const MirrorPiece slow{.address = kBase, .length = kSlicedEnd - kBase};
    mirror.describe(kBase, kSlicedEnd, {&slow, 1}, mirror.changes());
    EXPECT_TRUE(mirror.full());
    EXPECT_GT(mirror.chunk_count(), 10U);
    EXPECT_LT(mirror.chunk_count(), kNotes / 500);
    EXPECT_LE(account->used(Limit::kPagingMemory), kNotes);
    const std::uint64_t most = account->used(Limit::kPagingMemory);
    mirror.invalidate(1, kBase, kSlicedEnd, true);
    EXPECT_LT(account->used(Limit::kPagingMemory), most);
  }
  EXPECT_EQ(account->used(Limit::kPagingMemory), 0U);
}

}  // namespace
}  // namespace uroce::test
