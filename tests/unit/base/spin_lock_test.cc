#include "base/spin_lock.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace uroce::test {
namespace {

TEST(SpinLock, KeepsThreadsApart) {
  constexpr int kThreads = 4;
  constexpr int kTurns = 20'000;
  SpinLock lock;
  int value = 0;  // a data race if two are in
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < kTurns; ++turn) {
        const LockWhen held(true, lock);
        ++value;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(value, kThreads * kTurns);
}

TEST(SpinLock, IsLeftAloneWhereItIsNotWanted) {
  SpinLock lock;
  lock.lock();
  const LockWhen none(false, lock);
  lock.unlock();
}

}  // namespace
}  // namespace uroce::test
