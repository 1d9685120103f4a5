#include "mmu/window.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <ctime>
#include <thread>
#include <vector>

#include "base/sanitized.h"
#include "mmu/key_table.h"
#include "tests/unit/mmu/local_region.h"

namespace uroce::test {
namespace {

constexpr KeyUser kUser{.pd = kPd, .qpn = 17};
constexpr std::uint32_t kBindable = kAccessLocalWrite | kAccessMwBind;
constexpr std::uint32_t kReadWrite = kAccessRemoteRead | kAccessRemoteWrite;

class WindowTest : public ::testing::Test {
 protected:
  std::uint32_t add_region(std::uint32_t access = kBindable, PdId pd = kPd) {
    return *table_.add(local_region(memory_.data(), memory_.size(), kIova, pd, access));
  }
  std::uint32_t add_window(WindowType type = WindowType::kType2, PdId pd = kPd) {
    return *table_.windows().add(pd, type);
  }
  // Binds bytes 64 to 191 of the region, under the next tag; *key becomes the new rkey.
  WindowChange bind(std::uint32_t* key, std::uint32_t lkey, std::uint32_t access = kReadWrite,
                    KeyUser user = kUser) {
    const std::uint32_t next = (*key & ~0xFFU) | ((*key + 1) & 0xFFU);
    const WindowChange change = table_.bind_window(
        *key,
        {.new_key = next, .lkey = lkey, .address = kIova + 64, .length = 128, .access = access},
        user);
    if (change == WindowChange::kDone) {
      *key = next;
    }
    return change;
  }
  WindowChange unbind(std::uint32_t key) {
    return table_.bind_window(key, {.new_key = key + 1}, kUser);
  }
  Access check(std::uint32_t key, std::uint64_t address, std::uint64_t length,
               std::uint32_t rights = kAccessRemoteWrite, KeyUser user = kUser) {
    const Region* region = nullptr;
    found_ = address;
    return table_.check_remote(key, user, &found_, length, rights, &region);
  }

  std::array<std::byte, 4096> memory_{};
  std::uint64_t found_ = 0;  // the region's address for the range checked last
  Quiescence quiescence_;
  KeyTable table_{quiescence_, 1024, 1};
};

TEST_F(WindowTest, GrantsItsPartOfTheRegionAndNoMore) {
  const std::uint32_t lkey = add_region();
  std::uint32_t key = add_window();
  EXPECT_EQ(check(key, kIova + 64, 1), Access::kUnknownKey);  // not bound yet
  ASSERT_EQ(bind(&key, lkey), WindowChange::kDone);
  EXPECT_EQ(check(key, kIova + 64, 128), Access::kGranted);
  EXPECT_EQ(found_, kIova + 64);
  EXPECT_EQ(check(key, kIova + 63, 1), Access::kOutOfRange);
  EXPECT_EQ(check(key, kIova + 64, 129), Access::kOutOfRange);
  EXPECT_EQ(check(key, kIova + 191, 1), Access::kGranted);
  EXPECT_EQ(check(key, kIova + 192, 1), Access::kOutOfRange);
  EXPECT_EQ(check(key, kIova + 64, 8, kAccessRemoteAtomic), Access::kNoRight);
  EXPECT_EQ(check(lkey, kIova + 64, 8), Access::kNoRight);  // the region itself isn't for peers
}

TEST_F(WindowTest, AZeroBasedWindowCountsFromItsFirstByte) {
  const std::uint32_t lkey = add_region();
  std::uint32_t key = add_window();
  ASSERT_EQ(bind(&key, lkey, kReadWrite | kAccessZeroBased), WindowChange::kDone);
  EXPECT_EQ(check(key, 0, 128), Access::kGranted);
  EXPECT_EQ(found_, kIova + 64);
  EXPECT_EQ(check(key, 127, 1), Access::kGranted);
  EXPECT_EQ(check(key, 128, 1), Access::kOutOfRange);
  EXPECT_EQ(check(key, kIova + 64, 1), Access::kOutOfRange);
  std::uint32_t type1 = add_window(WindowType::kType1);
  EXPECT_EQ(bind(&type1, lkey, kAccessZeroBased), WindowChange::kWrongType);
}

TEST_F(WindowTest, Type2IsForOneQueuePairAndType1ForItsDomain) {
  const std::uint32_t lkey = add_region();
  std::uint32_t type1 = add_window(WindowType::kType1);
  std::uint32_t type2 = add_window();
  ASSERT_EQ(bind(&type1, lkey), WindowChange::kDone);
  ASSERT_EQ(bind(&type2, lkey), WindowChange::kDone);
  const KeyUser neighbour{.pd = kPd, .qpn = 18};
  const KeyUser stranger{.pd = kPd + 1, .qpn = 17};
  EXPECT_EQ(check(type1, kIova + 64, 8, kAccessRemoteRead, neighbour), Access::kGranted);
  EXPECT_EQ(check(type2, kIova + 64, 8, kAccessRemoteRead, neighbour), Access::kWrongPd);
  EXPECT_EQ(check(type1, kIova + 64, 8, kAccessRemoteRead, stranger), Access::kWrongPd);
  EXPECT_EQ(check(type2, kIova + 64, 8, kAccessRemoteRead, stranger), Access::kWrongPd);
}

TEST_F(WindowTest, Type1IsBoundRepeatedly) {
  const std::uint32_t lkey = add_region();
  std::uint32_t key = add_window(WindowType::kType1);
  ASSERT_EQ(bind(&key, lkey), WindowChange::kDone);
  const std::uint32_t before = key;
  ASSERT_EQ(bind(&key, lkey, kAccessRemoteRead), WindowChange::kDone);
  EXPECT_EQ(check(before, kIova + 64, 8), Access::kUnknownKey);
  EXPECT_EQ(check(key, kIova + 64, 8), Access::kNoRight);
  ASSERT_EQ(unbind(key), WindowChange::kDone);
  EXPECT_EQ(check(key, kIova + 64, 8, kAccessRemoteRead), Access::kUnknownKey);
  EXPECT_EQ(check(key + 1, kIova + 64, 8, kAccessRemoteRead), Access::kUnknownKey);
  EXPECT_EQ(table_.invalidate(key + 1, kUser, false), WindowChange::kWrongType);
}

TEST_F(WindowTest, Type2HasToBeInvalidatedFirst) {
  const std::uint32_t lkey = add_region();
  std::uint32_t key = add_window();
  EXPECT_EQ(unbind(key), WindowChange::kOutOfRange);
  ASSERT_EQ(bind(&key, lkey), WindowChange::kDone);
  EXPECT_EQ(bind(&key, lkey), WindowChange::kNotFree);
  EXPECT_EQ(table_.invalidate(key ^ 1U, kUser, false), WindowChange::kNoWindow);
  EXPECT_EQ(table_.invalidate(key, {.pd = kPd + 1, .qpn = 17}, false), WindowChange::kWrongPd);
  EXPECT_EQ(table_.invalidate(key, {.pd = kPd, .qpn = 18}, true), WindowChange::kWrongQp);
  EXPECT_EQ(check(key, kIova + 64, 8), Access::kGranted);
  EXPECT_EQ(table_.invalidate(key, kUser, true), WindowChange::kDone);
  EXPECT_EQ(check(key, kIova + 64, 8), Access::kUnknownKey);
  EXPECT_EQ(table_.invalidate(key, kUser, false), WindowChange::kDone);  // unbound already
  EXPECT_EQ(bind(&key, lkey), WindowChange::kDone);
  EXPECT_EQ(table_.invalidate(lkey, kUser, false), WindowChange::kNoWindow);
}

TEST_F(WindowTest, RefusesWhatTheRegionDoesntAllow) {
  std::uint32_t key = add_window();
  EXPECT_EQ(bind(&key, add_region(kAccessLocalWrite)), WindowChange::kNoRight);
  EXPECT_EQ(bind(&key, add_region(kAccessMwBind)), WindowChange::kNoRight);
  EXPECT_EQ(bind(&key, add_region(kBindable), kAccessFlushGlobal), WindowChange::kNoRight);
  EXPECT_EQ(bind(&key, add_region(kBindable, kPd + 1)), WindowChange::kWrongPd);
  EXPECT_EQ(bind(&key, 0), WindowChange::kNoRegion);
  const std::uint32_t lkey = add_region();
  EXPECT_EQ(bind(&key, lkey, kReadWrite, {.pd = kPd + 1, .qpn = 17}), WindowChange::kWrongPd);
  EXPECT_EQ(bind(&key, lkey ^ 1U), WindowChange::kNoRegion);
  std::uint32_t unknown = key ^ 0x100U;
  EXPECT_EQ(bind(&unknown, lkey), WindowChange::kNoWindow);
  EXPECT_EQ(bind(&key, add_region(kAccessMwBind), kAccessRemoteRead), WindowChange::kDone);
  const WindowBind outside{.new_key = 1, .lkey = lkey, .address = kIova + 4000, .length = 97};
  EXPECT_EQ(table_.bind_window(add_window(), outside, kUser), WindowChange::kOutOfRange);
}

TEST_F(WindowTest, KeepsItsRegionUntilItIsUnbound) {
  const std::uint32_t lkey = add_region();
  std::uint32_t key = add_window();
  ASSERT_EQ(bind(&key, lkey), WindowChange::kDone);
  EXPECT_FALSE(table_.close(lkey));
  auto refused = table_.replace(lkey, local_region(memory_.data(), 4096, kIova, kPd, kBindable));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EBUSY);
  EXPECT_EQ(check(key, kIova + 64, 8), Access::kGranted);
  table_.windows().remove(key);
  EXPECT_EQ(check(key, kIova + 64, 8), Access::kUnknownKey);
  EXPECT_TRUE(table_.close(lkey));
  std::uint32_t late = add_window();
  EXPECT_EQ(bind(&late, lkey), WindowChange::kNoRegion);
  EXPECT_NE(table_.remove(lkey), nullptr);
}

// The end of a session removes regions even if windows are bound to them.
TEST_F(WindowTest, RemovingARegionUnbindsItsWindows) {
  const std::uint32_t lkey = add_region();
  const std::uint32_t other = add_region();
  std::uint32_t key = add_window();
  std::uint32_t unconcerned = add_window();
  ASSERT_EQ(bind(&key, lkey), WindowChange::kDone);
  ASSERT_EQ(bind(&unconcerned, other), WindowChange::kDone);
  EXPECT_NE(table_.remove(lkey), nullptr);
  EXPECT_EQ(check(key, kIova + 64, 8), Access::kUnknownKey);
  EXPECT_EQ(check(unconcerned, kIova + 64, 8), Access::kGranted);
}

TEST_F(WindowTest, ARetiredRegionCantBeBoundButKeepsWhatIsBound) {
  const std::uint32_t lkey = add_region();
  std::uint32_t key = add_window();
  std::uint32_t late = add_window();
  std::uint32_t unconcerned = add_window();
  ASSERT_EQ(bind(&key, lkey), WindowChange::kDone);
  ASSERT_EQ(bind(&unconcerned, add_region()), WindowChange::kDone);
  EXPECT_FALSE(table_.retire(lkey));
  EXPECT_FALSE(table_.close(lkey));
  EXPECT_EQ(bind(&late, lkey), WindowChange::kNoRegion);
  EXPECT_EQ(check(key, kIova + 64, 8), Access::kGranted);
  table_.windows().release_retired();
  EXPECT_EQ(check(key, kIova + 64, 8), Access::kUnknownKey);
  EXPECT_EQ(check(unconcerned, kIova + 64, 8), Access::kGranted);
  EXPECT_TRUE(table_.retire(lkey));
  EXPECT_NE(table_.remove(lkey), nullptr);
}

// The end of a session whose many regions have windows of another session. With a pass over all
// windows for each region it takes seconds. Processor time, which other programs don't change.
TEST_F(WindowTest, ManyBoundRegionsAreUnboundInOnePass) {
  constexpr std::uint32_t kMany = 32 << 10;
  constexpr double kSecondsMax = 1.5;
  KeyTable table(quiescence_, kMany * KeyTable::kRegionsPerWindow, 1);
  std::vector<std::uint32_t> regions;
  for (std::uint32_t i = 0; i < kMany; ++i) {
    regions.push_back(*table.add(local_region(memory_.data(), 4096, kIova, kPd, kBindable)));
    ASSERT_EQ(table.bind_window(*table.windows().add(kPd, WindowType::kType2),
                                {.lkey = regions.back(), .address = kIova, .length = 8}, kUser),
              WindowChange::kDone);
  }
  const std::clock_t begin = std::clock();
  for (const std::uint32_t region : regions) {
    EXPECT_FALSE(table.retire(region));
  }
  table.windows().release_retired();
  for (const std::uint32_t region : regions) {
    EXPECT_NE(table.remove(region), nullptr);
  }
  if (!kSanitized) {
    EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, kSecondsMax);
  }
}

// A worker binds while the region goes: afterwards nothing is bound to it, whoever was first.
TEST_F(WindowTest, ARegionThatIsBoundAllTheTimeIsRemoved) {
  std::uint32_t window = add_window(WindowType::kType1);
  std::atomic<std::uint32_t> lkey{add_region()};
  std::atomic<std::uint32_t> binds{0};
  std::atomic<bool> stop{false};
  std::thread worker([&] {
    quiescence_.online(1);
    while (!stop.load(std::memory_order_relaxed)) {
      const WindowChange change = bind(&window, lkey.load(std::memory_order_relaxed));
      binds.fetch_add(change == WindowChange::kDone ? 1 : 0, std::memory_order_relaxed);
      quiescence_.quiescent(1);
    }
    quiescence_.offline(1);
  });
  for (int i = 0; i < 2'000 || binds.load() < 2'000; ++i) {
    const std::uint32_t old = lkey.load();
    if (i % 2 == 0 && !table_.retire(old)) {
      table_.windows().release_retired();
    }
    EXPECT_NE(table_.remove(old), nullptr);
    lkey = add_region();
  }
  stop = true;
  worker.join();
}

TEST_F(WindowTest, ARemovedQueuePairLeavesNoBoundWindow) {
  const std::uint32_t lkey = add_region();
  std::uint32_t key = add_window();
  ASSERT_EQ(bind(&key, lkey), WindowChange::kDone);
  table_.windows().release_qp(key, 18);
  EXPECT_EQ(check(key, kIova + 64, 8), Access::kGranted);
  table_.windows().release_qp(key, 17);
  EXPECT_EQ(check(key, kIova + 64, 8), Access::kUnknownKey);
  EXPECT_EQ(bind(&key, lkey), WindowChange::kDone);
}

TEST_F(WindowTest, SaysWhenAllAreTaken) {
  for (int i = 0; i < 256; ++i) {
    ASSERT_TRUE(table_.windows().add(kPd, WindowType::kType2));
  }
  const auto more = table_.windows().add(kPd, WindowType::kType2);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, ENOMEM);
}

TEST_F(WindowTest, ARegionIsReplacedUnderItsKey) {
  const std::uint32_t key = add_region(kReadWrite | kAccessLocalWrite);
  EXPECT_EQ(check(key, kIova, 8), Access::kGranted);
  auto old = table_.replace(key, local_region(memory_.data(), 64, kIova, kPd + 1, kReadWrite));
  ASSERT_TRUE(old);
  EXPECT_EQ((*old)->length(), 4096U);
  EXPECT_EQ(check(key, kIova, 8), Access::kWrongPd);
  const KeyUser user{.pd = kPd + 1, .qpn = 17};
  EXPECT_EQ(check(key, kIova, 64, kAccessRemoteWrite, user), Access::kGranted);
  EXPECT_EQ(check(key, kIova, 65, kAccessRemoteWrite, user), Access::kOutOfRange);
}

// One worker binds and invalidates while another looks up: each result is of a single bind.
TEST_F(WindowTest, ReadersSeeOneBindAtATime) {
  const std::uint32_t lkey = add_region();
  const std::uint32_t window = add_window();
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> granted{0};
  std::thread reader([&] {
    quiescence_.online(1);
    while (!stop.load(std::memory_order_relaxed)) {
      for (std::uint32_t tag = 0; tag < 256; ++tag) {
        const Region* region = nullptr;
        std::uint64_t address = kIova + 8 * std::uint64_t{tag};
        const std::uint32_t key = (window & ~0xFFU) | tag;
        const Access access = table_.check_remote(key, kUser, &address, 8, 0, &region);
        ASSERT_TRUE(access == Access::kGranted || access == Access::kUnknownKey);
        granted.fetch_add(access == Access::kGranted ? 1 : 0, std::memory_order_relaxed);
      }
      quiescence_.quiescent(1);
    }
    quiescence_.offline(1);
  });
  for (std::uint32_t i = 0; i < 20'000 || granted.load() == 0; ++i) {
    const std::uint32_t tag = i & 0xFFU;
    ASSERT_EQ(table_.bind_window(window,
                                 {.new_key = tag,
                                  .lkey = lkey,
                                  .address = kIova + 8 * std::uint64_t{tag},
                                  .length = 8,
                                  .access = kAccessRemoteRead},
                                 kUser),
              WindowChange::kDone);
    ASSERT_EQ(table_.invalidate((window & ~0xFFU) | tag, kUser, false), WindowChange::kDone);
  }
  stop = true;
  reader.join();
  EXPECT_TRUE(table_.close(lkey));
}

}  // namespace
}  // namespace uroce::test
