#include "base/memory/huge_slabs.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "base/sanitized.h"

namespace uroce::test {
namespace {

struct Piece {
  void* memory;
  std::size_t bytes;
  unsigned char mark;
};

bool whole(const Piece& piece) {
  const auto* bytes = static_cast<const unsigned char*>(piece.memory);
  for (std::size_t i = 0; i < piece.bytes; ++i) {
    if (bytes[i] != piece.mark) {
      return false;
    }
  }
  return true;
}

// None overlaps another, whatever was released before.
TEST(HugeSlabs, PiecesOfAllLengthsKeepWhatIsWritten) {
  HugeSlabs slabs;
  std::mt19937 random(1);
  std::vector<Piece> pieces;
  const auto release = [&](std::size_t index) {
    EXPECT_TRUE(whole(pieces[index]));
    slabs.release(pieces[index].memory, pieces[index].bytes);
    pieces[index] = pieces.back();
    pieces.pop_back();
  };
  for (int i = 0; i < 20'000; ++i) {
    const std::size_t bytes = 1 + random() % (HugeSlabs::kSlotMax >> random() % 9);
    const auto mark = static_cast<unsigned char>(random());
    void* const memory = slabs.allocate(bytes);
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(memory) % HugeSlabs::kSlotAlignment, 0U);
    std::memset(memory, mark, bytes);
    pieces.push_back({memory, bytes, mark});
    if (random() % 3 != 0) {
      release(random() % pieces.size());
    }
  }
  while (!pieces.empty()) {
    release(pieces.size() - 1);
  }
}

TEST(HugeSlabs, GiveBackEmptyChunks) {
  if (kSanitized) {
    GTEST_SKIP() << "all comes from the heap, where sanitizers look after it";
  }
  HugeSlabs slabs;
  std::vector<void*> memory;
  for (int round = 0; round < 3; ++round) {
    while (memory.size() < 1'000) {
      memory.push_back(slabs.allocate(8'192));
    }
    EXPECT_EQ(slabs.chunks(), 5U);  // 31 spans of 8 each
    for (void* piece : memory) {
      slabs.release(piece, 8'192);
    }
    memory.clear();
    EXPECT_EQ(slabs.chunks(), 1U);
  }
}

TEST(HugeSlabs, LongPiecesComeFromTheHeap) {
  HugeSlabs slabs;
  void* const memory = slabs.allocate(HugeSlabs::kSlotMax + 1);
  EXPECT_EQ(slabs.chunks(), 0U);
  slabs.release(memory, HugeSlabs::kSlotMax + 1);
}

TEST(HugeSlabs, AnObjectIsDestroyedBeforeItsMemoryGoesBack) {
  const auto kept = std::make_shared<int>(1);
  struct Holder {
    explicit Holder(std::shared_ptr<int> what) : held(std::move(what)) {}
    std::shared_ptr<int> held;
  };
  auto holder = make_huge_slab<Holder>(kept);
  EXPECT_EQ(kept.use_count(), 2);
  holder.reset();
  EXPECT_EQ(kept.use_count(), 1);
}

TEST(HugeSlabs, SeveralThreadsShareThem) {
  const auto use = [] {
    std::vector<HugeSlabArray<int>> arrays;
    for (int i = 0; i < 2'000; ++i) {
      arrays.push_back(make_huge_slab_array<int>(100));
      arrays.back()[99] = i;
    }
    for (int i = 0; i < 2'000; ++i) {
      EXPECT_EQ(arrays[static_cast<std::size_t>(i)][99], i);
    }
  };
  std::thread other(use);
  use();
  other.join();
}

}  // namespace
}  // namespace uroce::test
