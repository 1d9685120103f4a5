#include "control/sessions/ring_arena.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "shares/shares.h"

namespace uroce::control {
namespace {

constexpr std::size_t kControls = 2 * sizeof(abi::RingControl);

class RingArenaTest : public ::testing::Test {
 protected:
  RingArena::Rings take(std::size_t bytes) {
    auto rings = arena.take(bytes);
    EXPECT_TRUE(rings.has_value());
    return rings ? std::move(*rings) : RingArena::Rings();
  }
  static void fill(const RingArena::Rings& rings, std::size_t bytes, int value) {
    std::memset(rings.memory_data() + rings.controls(), value, kControls);
    std::memset(rings.memory_data() + rings.entries(), value, bytes);
  }
  static bool holds(const RingArena::Rings& rings, std::size_t bytes, int value) {
    const auto same = [value](std::byte byte) { return byte == static_cast<std::byte>(value); };
    const std::byte* const control = rings.memory_data() + rings.controls();
    const std::byte* const entries = rings.memory_data() + rings.entries();
    return std::all_of(control, control + kControls, same) &&
           std::all_of(entries, entries + bytes, same);
  }
  std::uint64_t used(Limit limit) { return account->used(limit); }

  std::shared_ptr<Account> account = make_private_account();
  RingArena arena{account};
};

TEST_F(RingArenaTest, RingsOfOneSizeShareAMemoryWithoutOverlap) {
  constexpr std::size_t kBytes = 8'256;
  std::vector<RingArena::Rings> rings;
  for (int i = 0; i < 200; ++i) {
    rings.push_back(take(kBytes));
    ASSERT_TRUE(holds(rings.back(), kBytes, 0)) << i;
    fill(rings.back(), kBytes, i);
  }
  for (int i = 0; i < 200; ++i) {
    EXPECT_TRUE(holds(rings[static_cast<std::size_t>(i)], kBytes, i)) << i;
  }
  EXPECT_LE(arena.memories(), 8U) << "60 KiB, 60 KiB, 120 KiB, and so on";
  EXPECT_EQ(used(Limit::kMappings), arena.memories());
  EXPECT_EQ(used(Limit::kDescriptors), arena.memories());
}

TEST_F(RingArenaTest, RingsBeginOnAPageWithTheirControls) {
  const auto one = take(8'256), other = take(8'256);
  EXPECT_EQ(one.entries(), one.controls() + kControls);
  EXPECT_GE(other.controls(), one.entries() + 8'256);
  EXPECT_EQ(other.controls() % kPage, 0U);
  const auto small = take(640), next = take(640);
  EXPECT_EQ(next.controls() - small.controls(), kPage);
}

TEST_F(RingArenaTest, ControlsOfReusedRingsAreZeroed) {
  const auto first = take(1'000);  // keeps the memory
  std::pair<std::size_t, std::size_t> where;
  {
    const auto rings = take(1'000);
    where = {rings.controls(), rings.entries()};
    fill(rings, 1'000, 0x5A);
  }
  const auto next = take(1'000);
  EXPECT_EQ(std::pair(next.controls(), next.entries()), where);
  EXPECT_TRUE(holds(next, 0, 0)) << "the entries aren't checked";
}

TEST_F(RingArenaTest, AMemoryIsChargedUntilItsLastRingsAreFreedAndOneIsKept) {
  constexpr std::size_t kBytes = RingArena::kPackedMax;
  std::vector<RingArena::Rings> rings;
  for (int i = 0; i < 40; ++i) {
    rings.push_back(take(kBytes));
  }
  EXPECT_GE(used(Limit::kQueueMemory), 40 * kBytes);
  EXPECT_GT(arena.memories(), 2U);
  rings.clear();
  EXPECT_EQ(arena.memories(), 1U);
  EXPECT_LE(used(Limit::kQueueMemory), RingArena::kBytesMax);
  EXPECT_EQ(used(Limit::kMappings), 1U);
}

TEST_F(RingArenaTest, LongRingsHaveTheirOwnMemoryWhichIsFreedWithThem) {
  {
    const auto one = take(RingArena::kPackedMax + 1), other = take(RingArena::kPackedMax + 1);
    EXPECT_NE(one.memory(), other.memory());
    EXPECT_TRUE(holds(one, RingArena::kPackedMax + 1, 0));
    EXPECT_EQ(used(Limit::kDescriptors), 2U);
    EXPECT_TRUE(arena.share(one.memory()).has_value());
    EXPECT_EQ(used(Limit::kDescriptors), 1U) << "the program has it";
    EXPECT_EQ(arena.share(one.memory()).error().code, EINVAL) << "only once";
  }
  EXPECT_EQ(arena.memories(), 0U);
  EXPECT_EQ(used(Limit::kQueueMemory), 0U);
}

TEST_F(RingArenaTest, NumbersAreNotReused) {
  std::uint32_t before = 0;
  for (int i = 0; i < 3; ++i) {
    const auto rings = take(1'000'000);
    EXPECT_GT(rings.memory(), before);
    before = rings.memory();
  }
}

TEST_F(RingArenaTest, TheProgramSeesTheSameMemory) {
  const auto rings = take(640);
  auto shared = arena.share(rings.memory());
  ASSERT_TRUE(shared.has_value());
  auto* const seen = static_cast<std::byte*>(::mmap(nullptr, shared->length, PROT_READ | PROT_WRITE,
                                                    MAP_SHARED, shared->descriptor.get(), 0));
  ASSERT_NE(seen, MAP_FAILED);
  fill(rings, 640, 7);
  EXPECT_EQ(seen[rings.controls()], std::byte{7});
  EXPECT_EQ(seen[rings.entries() + 639], std::byte{7});
  ::munmap(seen, shared->length);
  EXPECT_EQ(arena.share(rings.memory() + 1).error().code, EINVAL);
}

// Half of what others leave is 40 KiB: too little for the usual first memory, of 60 KiB.
TEST(RingArenaLimits, TheRemainderIsUsableRingByRing) {
  Amounts amounts;
  amounts.fill(1'000);
  amounts[Limit::kQueueMemory] = 2 * (40U << 10U) * 64 / 63 + 64;
  amounts[Limit::kAddressSpace] = 1U << 30U;
  Shares shares{amounts};
  RingArena arena{shares.of({.uid = 12'345})};
  std::vector<RingArena::Rings> rings;
  for (auto more = arena.take(8'000); more; more = arena.take(8'000)) {
    rings.push_back(std::move(*more));
  }
  EXPECT_GE(rings.size(), 3U) << "12 KiB each, of 40";
  EXPECT_EQ(arena.take(8'000).error().code, ENOMEM);
  rings.clear();
  EXPECT_EQ(arena.memories(), 1U) << "kept for the next of this size";
  for (auto more = arena.take(1'000); more; more = arena.take(1'000)) {
    rings.push_back(std::move(*more));
  }
  EXPECT_GE(rings.size(), 9U) << "4 KiB each, of 40: that of the other size was freed";
}

}  // namespace
}  // namespace uroce::control
