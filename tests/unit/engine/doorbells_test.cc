#include "dataplane/engine/turn/doorbells.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <bit>
#include <chrono>
#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace uroce {
namespace {

class BellsTest : public testing::Test {
 protected:
  std::vector<std::uint32_t> take(std::uint32_t max) {
    std::vector<std::uint32_t> slots(max);
    slots.resize(take_doorbells(*bells_, slots.data(), max));
    return slots;
  }
  std::unique_ptr<abi::Doorbells> bells_ = std::make_unique<abi::Doorbells>();
};

TEST_F(BellsTest, TakesEachRungBellOnce) {
  for (const std::uint32_t slot : {0U, 63U, 64U, 4'096U, abi::kDoorbellSlots - 1}) {
    abi::ring(*bells_, slot);
    abi::ring(*bells_, slot);
  }
  EXPECT_TRUE(any_doorbells(*bells_));
  EXPECT_EQ(take(16), (std::vector<std::uint32_t>{0, 63, 64, 4'096, abi::kDoorbellSlots - 1}));
  EXPECT_FALSE(any_doorbells(*bells_));
  EXPECT_TRUE(take(16).empty());
}

TEST_F(BellsTest, BellsBeyondTheBoundStayRung) {
  std::set<std::uint32_t> rung;
  for (std::uint32_t slot = 0; slot < abi::kDoorbellSlots; slot += 61) {
    abi::ring(*bells_, slot);
    rung.insert(slot);
  }
  std::set<std::uint32_t> taken;
  while (any_doorbells(*bells_)) {
    const auto some = take(7);
    ASSERT_FALSE(some.empty());
    ASSERT_LE(some.size(), 7U);
    for (const std::uint32_t slot : some) {
      EXPECT_TRUE(taken.insert(slot).second);
    }
  }
  EXPECT_EQ(taken, rung);
}

TEST_F(BellsTest, AScribblingProgramYieldsNoSlotOutOfRange) {
  bells_->top = ~0ULL;
  for (auto& word : bells_->words) {
    word = ~0ULL;
  }
  std::vector<std::uint32_t> all, slots;
  while (!(slots = take(256)).empty()) {
    all.insert(all.end(), slots.begin(), slots.end());
  }
  ASSERT_EQ(all.size(), abi::kDoorbellSlots);
  EXPECT_LT(*std::max_element(all.begin(), all.end()), abi::kDoorbellSlots);
}

// The cost of a call is bounded, and a genuine bell is still found in the end.
TEST_F(BellsTest, AProgramThatSetsUpperBitsOnlyCostsABoundedScan) {
  constexpr std::uint32_t kSlot = abi::kDoorbellSlots - 70;
  bells_->top = ~0ULL;
  bells_->words[kSlot / 64] = 1ULL << (kSlot % 64);
  std::vector<std::uint32_t> slots;
  for (std::uint32_t calls = 0; slots.empty(); ++calls) {
    ASSERT_LT(calls, 64 / kBitsInVainMax);
    ASSERT_TRUE(any_doorbells(*bells_));
    const int before = std::popcount(bells_->top.load());
    slots = take(256);
    EXPECT_LE(before - std::popcount(bells_->top.load()), static_cast<int>(kBitsInVainMax) + 1);
  }
  EXPECT_EQ(slots, std::vector<std::uint32_t>{kSlot});
  EXPECT_TRUE(take(256).empty());
  EXPECT_FALSE(any_doorbells(*bells_));
}

// Two threads ring doorbells beside a worker that takes them, and that sleeps when there are none,
// as in production. Each slot has a counter that the ringer raises before it rings, as a program's
// ring does. Rounds are so short that no later ring makes up for a lost one.
class RingersTest : public BellsTest {
 protected:
  static constexpr std::uint32_t kSlots = 130;
  static constexpr std::uint32_t kApart = 31;  // some share a word; four bits of `top`
  static constexpr std::uint32_t kRings = 6;   // per round and ringer
  // As many rounds as there is time for: on a busy machine each takes milliseconds.
  static constexpr std::uint32_t kRounds = 30'000;
  static constexpr std::chrono::milliseconds kTime{500};

  // `in_a_row`: how often the same slot rings in succession, so that its bits are mostly set.
  void ring(std::uint32_t seed, std::uint32_t in_a_row) {
    for (std::uint32_t i = 0; i < kRings; ++i) {
      const std::uint32_t slot = (seed + 7 * (i / in_a_row)) % kSlots;
      posted_[slot].fetch_add(1, std::memory_order_relaxed);
      abi::ring(*bells_, slot * kApart);
      waking_.wake(status_, [this] { woken_.store(true, std::memory_order_release); });
    }
    ringing_.fetch_sub(1, std::memory_order_release);
  }

  void take_some() {
    for (const std::uint32_t slot : take(3)) {  // what is left is put back beside the ringers
      seen_[slot / kApart] = posted_[slot / kApart].load(std::memory_order_relaxed);
    }
  }

  // As in Wakeup and Runner: announces that it sleeps, checks once more, and then has to be woken.
  // False: all ringers are done, and nobody woke it.
  bool sleep() {
    status_.beats.store(beats_ += 2, std::memory_order_relaxed);
    status_.asleep.exchange(1, std::memory_order_seq_cst);
    bool awake = any_doorbells(*bells_);
    if (!awake) {
      status_.beats.store(beats_ + 1, std::memory_order_relaxed);
    }
    while (!awake) {
      const bool over = ringing_.load(std::memory_order_acquire) == 0;
      awake = woken_.exchange(false, std::memory_order_acquire);
      if (over) {
        break;
      }
      std::this_thread::yield();
    }
    status_.asleep.store(0, std::memory_order_relaxed);
    return awake;
  }

  std::array<std::atomic<std::uint32_t>, kSlots> posted_{};
  std::array<std::uint32_t, kSlots> seen_{};
  std::atomic<int> ringing_{0};
  abi::WorkerStatus status_{};
  std::uint64_t beats_ = 0;  // the worker's
  abi::WakeOnce waking_;     // the ringers are threads of one program
  std::atomic<bool> woken_{false};
};

TEST_F(RingersTest, NoRingIsLostOrSleptThrough) {
  std::barrier begin(3), end(3);
  std::atomic<bool> over{false};
  const auto ringer = [&](std::uint32_t seed) {
    for (std::uint32_t round = 0;; ++round) {
      begin.arrive_and_wait();
      if (over.load()) {
        return;
      }
      ring(seed + 11 * round, 1 + round % 2);
      end.arrive_and_wait();
    }
  };
  std::thread one(ringer, 0), other(ringer, 21);  // which share slots
  const auto start = std::chrono::steady_clock::now();
  for (std::uint32_t round = 0;
       round < kRounds && std::chrono::steady_clock::now() - start < kTime && !HasFailure();
       ++round) {
    ringing_.store(2);
    begin.arrive_and_wait();
    do {
      take_some();
    } while (any_doorbells(*bells_) || sleep());
    end.arrive_and_wait();
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
      EXPECT_EQ(seen_[slot], posted_[slot].load()) << slot << " in round " << round;
    }
  }
  over.store(true);
  begin.arrive_and_wait();
  one.join();
  other.join();
}

}  // namespace
}  // namespace uroce
