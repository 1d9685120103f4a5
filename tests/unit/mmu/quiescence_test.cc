#include "mmu/quiescence.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace uroce::test {
namespace {

TEST(Quiescence, NobodyIsWaitedForWhoIsAway) {
  Quiescence quiescence;
  quiescence.wait();
  quiescence.online(0);
  quiescence.offline(0);
  quiescence.wait();
}

TEST(Quiescence, AWorkerInATurnIsWaitedFor) {
  Quiescence quiescence(4);
  quiescence.online(2);
  std::atomic<bool> turn_over{false};
  std::atomic<bool> waited{false};
  std::thread waiter([&] {
    quiescence.wait();
    EXPECT_TRUE(turn_over.load());
    waited = true;
  });
  for (int i = 0; i < 1000; ++i) {
    std::this_thread::yield();
  }
  turn_over = true;
  // Again and again: the waiter may only begin now, and waits for the next.
  while (!waited) {
    quiescence.quiescent(2);
    std::this_thread::yield();
  }
  waiter.join();
  quiescence.offline(2);
}

}  // namespace
}  // namespace uroce::test
