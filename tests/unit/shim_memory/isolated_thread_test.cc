// The shim's threads in a program with much static thread-local memory, which is part of each
// thread's stack. A program of its own, because the memory is in all of its threads.

#include "verbs_shim/memory/sharing/isolated_thread.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace uroce::test
