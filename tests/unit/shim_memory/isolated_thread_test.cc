// The shim's threads in a program with much static thread-local memory, which is part of each
// thread's stack. A program of its own, because the memory is in all of its threads.

#include "verbs_shim/memory/sharing/isolated_thread.h"

#include <gtest/gtest.h>

#include <semaphore>
#include <thread>

namespace uroce::test {
namespace {

constexpr std::size_t kMuch = 1 << 20;  // more than ThreadSanitizer's run-time uses
thread_local volatile char much[kMuch];

void* fill(void* last) {
  for (volatile char& byte : much) {
    byte = 1;
  }
  *static_cast<char*>(last) = much[kMuch - 1];
  return nullptr;
}

TEST(IsolatedThread, HasRoomForTheProgramsThreadLocalMemory) {
  shim::IsolatedThread thread;
  ASSERT_TRUE(thread.prepare(1));
  char last = 0;
  ASSERT_TRUE(thread.start("test", fill, &last));
  thread.join();
  EXPECT_EQ(last, 1);
}

// A thread of the program's that is taken for one of these would be ignored where its stores
// matter.
TEST(IsolatedThread, IsCountedUntilItReturns) {
  struct Waits {
    std::binary_semaphore started{0}, ended{0};
  } waits;
  shim::IsolatedThread thread;
  ASSERT_TRUE(thread.prepare(1));
  const auto work = [](void* argument) -> void* {
    auto& its = *static_cast<Waits*>(argument);
    its.started.release();
    its.ended.acquire();
    return nullptr;
  };
  ASSERT_TRUE(thread.start("test", work, &waits));
  waits.started.acquire();
  EXPECT_EQ(shim::IsolatedThread::count(), 1);
  waits.ended.release();
  while (shim::IsolatedThread::count() != 0) {
    std::this_thread::yield();
  }
  thread.join();
  EXPECT_EQ(shim::IsolatedThread::count(), 0);
}

}  // namespace
}  // namespace uroce::test
