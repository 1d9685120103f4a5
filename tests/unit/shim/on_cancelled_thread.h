#pragma once

// Work on a thread that was cancelled before it began: it ends at the work's first cancellation
// point, or after the work if that has none.

#include <gtest/gtest.h>
#include <pthread.h>

namespace uroce::test {

template <typename Work>
struct CancelledWork {
  Work work;
  bool done = false;

  // Not inlined: AddressSanitizer reports what a cancelled thread's calls leave on its stack, so
  // the thread must have returned from all of them.
  __attribute__((noinline)) void perform() {
    work();
    done = true;
  }
};

// Whether the work was completed.
template <typename Work>
bool on_cancelled_thread(Work work) {
  CancelledWork<Work> order{.work = work};
  pthread_t thread{};
  pthread_create(
      &thread, nullptr,
      [](void* argument) -> void* {
        pthread_cancel(pthread_self());
        static_cast<CancelledWork<Work>*>(argument)->perform();
        pthread_testcancel();
        return nullptr;
      },
      &order);
  void* result = nullptr;
  pthread_join(thread, &result);
  EXPECT_EQ(result, PTHREAD_CANCELED);
  return order.done;
}

}  // namespace uroce::test
