#include "mmu/key_table.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <set>
#include <thread>

#include "tests/unit/mmu/local_region.h"

namespace uroce::test {
namespace {

class KeyTableTest : public ::testing::Test {
 protected:
  std::uint32_t add(std::uint32_t access, std::uint64_t iova = kIova) {
    auto key = table_.add(local_region(memory_.data(), memory_.size(), iova, kPd, access));
    EXPECT_TRUE(key);
    return *key;
  }
  Access check(std::uint32_t key, std::uint64_t address, std::uint64_t length,
               std::uint32_t rights = 0, PdId pd = kPd) {
    const Region* region = nullptr;
    return table_.check(key, pd, address, length, rights, &region);
  }

  std::array<std::byte, 4096> memory_{};
  Quiescence quiescence_;
  KeyTable table_{quiescence_, 1024, 1};
};

TEST_F(KeyTableTest, GrantsWhatTheRegionAllows) {
  const std::uint32_t key = add(kAccessLocalWrite | kAccessRemoteRead);
  const Region* region = nullptr;
  EXPECT_EQ(table_.check(key, kPd, kIova, 4096, kAccessRemoteRead, &region), Access::kGranted);
  ASSERT_NE(region, nullptr);
  EXPECT_EQ(region->key(), key);
  EXPECT_EQ(check(key, kIova, 4096, kAccessLocalWrite | kAccessRemoteRead), Access::kGranted);
  EXPECT_EQ(check(key, kIova, 4096, kAccessRemoteWrite), Access::kNoRight);
  EXPECT_EQ(check(key, kIova, 4096, kAccessRemoteAtomic), Access::kNoRight);
  EXPECT_EQ(check(key, kIova, 4096, 0, kPd + 1), Access::kWrongPd);
}

TEST_F(KeyTableTest, RefusesRangesOutsideInEveryWay) {
  const std::uint32_t key = add(0);
  EXPECT_EQ(check(key, kIova, 4097), Access::kOutOfRange);
  EXPECT_EQ(check(key, kIova + 4095, 1), Access::kGranted);
  EXPECT_EQ(check(key, kIova + 4095, 2), Access::kOutOfRange);
  EXPECT_EQ(check(key, kIova + 4096, 1), Access::kOutOfRange);
  EXPECT_EQ(check(key, kIova - 1, 1), Access::kOutOfRange);
  EXPECT_EQ(check(key, kIova - 1, 2), Access::kOutOfRange);
  EXPECT_EQ(check(key, ~0ULL, 2), Access::kOutOfRange);
  EXPECT_EQ(check(key, kIova + 1, ~0ULL), Access::kOutOfRange);
  EXPECT_EQ(check(key, kIova + 8192, 0), Access::kGranted);
}

TEST_F(KeyTableTest, RegionsAtTheEndOfTheAddressesWork) {
  const std::uint32_t key = add(0, 0ULL - 4096);
  EXPECT_EQ(check(key, 0ULL - 4096, 4096), Access::kGranted);
  EXPECT_EQ(check(key, 0ULL - 1, 1), Access::kGranted);
  EXPECT_EQ(check(key, 0ULL - 1, 2), Access::kOutOfRange);
  EXPECT_EQ(check(key, 0, 1), Access::kOutOfRange);
  auto wrapped = table_.add(local_region(memory_.data(), 4096, 0ULL - 100));
  ASSERT_FALSE(wrapped);
  EXPECT_EQ(wrapped.error().code, EINVAL);
}

TEST_F(KeyTableTest, UnknownAndStaleKeysFail) {
  const std::uint32_t key = add(0);
  EXPECT_EQ(check(key ^ 1U, kIova, 1), Access::kUnknownKey);
  EXPECT_EQ(check(0, kIova, 1), Access::kUnknownKey);
  EXPECT_EQ(check(~0U, kIova, 1), Access::kUnknownKey);
  EXPECT_EQ(table_.remove(key ^ 1U), nullptr);
  ASSERT_NE(table_.remove(key), nullptr);
  EXPECT_EQ(check(key, kIova, 1), Access::kUnknownKey);
  EXPECT_EQ(table_.remove(key), nullptr);
}

TEST_F(KeyTableTest, AReusedIndexHasAnotherTag) {
  KeyTable small(quiescence_, 2, 3);
  std::uint32_t before = 0;
  for (int i = 0; i < 1000; ++i) {
    auto key = small.add(local_region(memory_.data(), 4096));
    ASSERT_TRUE(key);
    ASSERT_NE(*key, before);
    before = *key;
    ASSERT_NE(small.remove(*key), nullptr);
  }
}

TEST_F(KeyTableTest, AKeyMayBeChosen) {
  constexpr std::uint32_t kChosen = 0x1234;
  const auto region = [&] { return local_region(memory_.data(), memory_.size(), kIova, kPd, 0); };
  ASSERT_EQ(*table_.add(region(), kChosen), kChosen);
  EXPECT_EQ(check(kChosen, kIova, 1), Access::kGranted);
  EXPECT_EQ(table_.add(region(), kChosen + 1).error().code, EBUSY) << "its index is taken";
  EXPECT_EQ(table_.add(region(), 0xFFFF'FF00).error().code, EBUSY) << "beyond the table";
  table_.remove(kChosen);
  EXPECT_EQ(*table_.add(region(), kChosen), kChosen);
}

TEST_F(KeyTableTest, SaysWhenItIsFull) {
  std::set<std::uint32_t> keys;
  for (int i = 0; i < 1023; ++i) {
    keys.insert(add(0));
  }
  EXPECT_EQ(keys.size(), 1023U);
  auto more = table_.add(local_region(memory_.data(), 4096));
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, ENOMEM);
  ASSERT_NE(table_.remove(*keys.begin()), nullptr);
  EXPECT_TRUE(table_.add(local_region(memory_.data(), 4096)));
}

// A worker that looks up and reads; a removed region is freed at once, so a worker that still held
// it would be detected (by ASan and TSan, and by its contents).
TEST_F(KeyTableTest, RemovedRegionsAreNotUsedAnyMore) {
  std::atomic<std::uint32_t> key{add(0)};
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> granted{0};
  std::thread worker([&] {
    quiescence_.online(0);
    for (std::uint64_t turn = 0; !stop.load(std::memory_order_relaxed); ++turn) {
      for (int i = 0; i < 8; ++i) {
        const Region* region = nullptr;
        const std::uint32_t asked = key.load(std::memory_order_relaxed);
        if (table_.check(asked, kPd, kIova, 8, 0, &region) == Access::kGranted) {
          Span span;
          ASSERT_EQ(region->translate(kIova, 8, false, &span), Access::kGranted);
          ASSERT_EQ(region->key(), asked);
          ASSERT_EQ(span.host, memory_.data());
          granted.fetch_add(1, std::memory_order_relaxed);
        }
      }
      quiescence_.quiescent(0);
      if (turn % 64 == 0) {
        quiescence_.offline(0);
        quiescence_.online(0);
      }
    }
    quiescence_.offline(0);
  });
  for (int i = 0; i < 2000 || granted.load() == 0; ++i) {
    const std::uint32_t old = key.load();
    key.store(add(0));
    auto removed = table_.remove(old);
    ASSERT_NE(removed, nullptr);
  }
  stop = true;
  worker.join();
}

// A removed region that a hanging worker may still access isn't freed before the table is.
TEST(HangingWorker, KeepsWhatItMayHold) {
  Quiescence quiescence(Quiescence::kWorkersMax, kNanosecondsPerMillisecond);
  auto freed = std::make_shared<int>();
  const std::weak_ptr<int> held = freed;
  {
    KeyTable table(quiescence, 1024, 1);
    Region::Config config;
    config.null = true;
    config.length = 4096;
    config.pieces = {{.start = 0, .length = 4096, .host = nullptr, .remote_address = 0}};
    config.holds.push_back(std::move(freed));
    const auto key = table.add(std::make_unique<Region>(std::move(config)));
    ASSERT_TRUE(key);
    quiescence.online(1);
    EXPECT_EQ(table.remove(*key), nullptr);
    const Region* region = nullptr;
    EXPECT_NE(table.check(*key, 0, 0, 1, 0, &region), Access::kGranted) << "it can't be looked up";
    EXPECT_FALSE(held.expired());
    quiescence.offline(1);
  }
  EXPECT_TRUE(held.expired());
}

// A worker that ends a turn only when somebody has waited for it too long: each wait is counted.
class WaitsTest : public ::testing::Test {
 protected:
  WaitsTest() {
    quiescence.online(1);
    quiescence.on_overdue([this] {
      ++waits;
      quiescence.quiescent(1);
    });
  }
  ~WaitsTest() override { quiescence.offline(1); }

  std::array<std::byte, 4096> memory{};
  Quiescence quiescence{Quiescence::kWorkersMax, kNanosecondsPerMillisecond};
  KeyTable table{quiescence, 1024, 1};
  int waits = 0;
};

TEST_F(WaitsTest, ManyRegionsAreRemovedInOne) {
  std::vector<std::uint32_t> keys;
  for (std::size_t i = 0; i < kKeysAtOnce; ++i) {
    keys.push_back(*table.add(local_region(memory.data(), memory.size())));
  }
  const auto bound = *table.add(
      local_region(memory.data(), memory.size(), kIova, kPd, kAccessMwBind | kAccessLocalWrite));
  const std::uint32_t window = *table.windows().add(kPd, WindowType::kType2);
  const KeyUser user{.pd = kPd, .qpn = 17};
  ASSERT_EQ(table.bind_window(window, {.lkey = bound, .address = kIova, .length = 8}, user),
            WindowChange::kDone);
  keys.back() = bound;
  table.remove_all(keys);
  EXPECT_EQ(waits, 1);
  for (const std::uint32_t key : keys) {
    EXPECT_EQ(table.remove(key), nullptr) << "it is gone, also if a window was bound to it";
  }
  table.remove_all({});
  EXPECT_EQ(waits, 1) << "nothing to wait for";
}

TEST_F(WaitsTest, ManyWindowsAreRemovedInOne) {
  const std::uint32_t lkey = *table.add(
      local_region(memory.data(), memory.size(), kIova, kPd, kAccessMwBind | kAccessLocalWrite));
  const KeyUser user{.pd = kPd, .qpn = 17};
  std::vector<std::uint32_t> keys;
  for (std::size_t i = 0; i < kKeysAtOnce; ++i) {
    keys.push_back(*table.windows().add(kPd, WindowType::kType2));
    ASSERT_EQ(table.bind_window(keys.back(), {.lkey = lkey, .address = kIova, .length = 8}, user),
              WindowChange::kDone);
  }
  EXPECT_FALSE(table.windows().add(kPd, WindowType::kType2)) << "all are taken";
  table.windows().remove_all(keys);
  EXPECT_EQ(waits, 1);
  EXPECT_TRUE(table.close(lkey)) << "none is bound any more";
  for (const std::uint32_t key : keys) {
    EXPECT_EQ(table.windows().find(key), nullptr);
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    EXPECT_TRUE(table.windows().add(kPd, WindowType::kType2)) << "its index is free";
  }
  table.windows().remove_all({});
  EXPECT_EQ(waits, 1);
}

TEST_F(KeyTableTest, TenThousandRemovalsAreQuick) {
  KeyTable table(quiescence_);
  std::vector<std::uint32_t> keys;
  for (int i = 0; i < 10'000; ++i) {
    keys.push_back(*table.add(local_region(memory_.data(), 4096)));
  }
  quiescence_.online(3);
  quiescence_.offline(3);  // a sleeping worker delays nobody
  const auto start = std::chrono::steady_clock::now();
  for (const std::uint32_t key : keys) {
    ASSERT_NE(table.remove(key), nullptr);
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  RecordProperty("milliseconds", std::to_string(took.count()));
}

}  // namespace
}  // namespace uroce::test
