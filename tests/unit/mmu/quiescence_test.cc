#include "mmu/quiescence.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace uroce::test {
namespace {

TEST(Quiescence, OfflineWorkersAreNotWaitedFor) {
  Quiescence quiescence;
  EXPECT_TRUE(quiescence.wait());
  quiescence.online(0);
  quiescence.offline(0);
  EXPECT_TRUE(quiescence.wait());
}

TEST(Quiescence, AWorkerInATurnIsWaitedFor) {
  Quiescence quiescence(4);
  quiescence.online(2);
  std::atomic<bool> turn_over{false};
  std::atomic<bool> waited{false};
  std::thread waiter([&] {
    EXPECT_TRUE(quiescence.wait());
    EXPECT_TRUE(turn_over.load());
    waited = true;
  });
  for (int i = 0; i < 1000; ++i) {
    std::this_thread::yield();
  }
  turn_over = true;
  // Repeatedly: the waiter may start only now, and then waits for the next quiescent state.
  while (!waited) {
    quiescence.quiescent(2);
    std::this_thread::yield();
  }
  waiter.join();
  quiescence.offline(2);
}

TEST(Quiescence, AWorkerThatHangsIsWaitedForOnlySoLong) {
  Quiescence quiescence(4, kNanosecondsPerMillisecond);
  int told = 0;
  quiescence.on_overdue([&told] { ++told; });
  quiescence.online(2);
  EXPECT_FALSE(quiescence.wait());
  EXPECT_EQ(told, 1);
  EXPECT_FALSE(quiescence.wait());
  EXPECT_EQ(told, 1) << "it isn't waited for a second time";
  quiescence.offline(2);
  EXPECT_TRUE(quiescence.wait());
  EXPECT_EQ(told, 1);
}

// Also if another waiter's check found the worker quiescent (ThreadSanitizer verifies it).
TEST(Quiescence, EachWaiterSeesWhatTheWorkerDid) {
  constexpr int kWaits = 200;
  Quiescence quiescence(4);
  quiescence.online(1);
  int memory[2] = {1, 1};  // read by the worker until it is quiescent
  std::atomic<int*> shared[2] = {&memory[0], &memory[1]};
  std::atomic<int> left{2};
  std::vector<std::thread> waiters;
  for (int i = 0; i < 2; ++i) {
    waiters.emplace_back([&, i] {
      for (int wait = 0; wait < kWaits; ++wait) {
        shared[i].store(nullptr, std::memory_order_relaxed);
        EXPECT_TRUE(quiescence.wait());
        memory[i] = 0;
        memory[i] = 1;
        shared[i].store(&memory[i], std::memory_order_release);  // pairs with the worker's acquire
      }
      --left;
    });
  }
  int zeroes = 0;
  while (left != 0) {
    for (auto& pointer : shared) {
      const int* const there = pointer.load(std::memory_order_acquire);
      zeroes += there != nullptr && *there == 0 ? 1 : 0;
    }
    quiescence.quiescent(1);
    std::this_thread::yield();
  }
  for (std::thread& waiter : waiters) {
    waiter.join();
  }
  EXPECT_EQ(zeroes, 0);
  quiescence.offline(1);
}

}  // namespace
}  // namespace uroce::test
