// Verbs aren't cancellation points: a thread that was cancelled ends after the call, not inside of
// it with a lock.

#include <pthread.h>

#include <thread>

#include "tests/unit/shim/verbs_fixture.h"

namespace uroce::test {
namespace {

class Cancel : public VerbsFixture {
 protected:
  // Does the work on a thread that was cancelled before. Whether it came to the end.
  template <typename Work>
  static bool cancelled(Work work) {
    struct Order {
      Work work;
      bool done = false;
    } order{.work = work};
    pthread_t thread{};
    pthread_create(
        &thread, nullptr,
        [](void* argument) -> void* {
          auto& mine = *static_cast<Order*>(argument);
          pthread_cancel(pthread_self());
          mine.work();
          mine.done = true;
          pthread_testcancel();
          return nullptr;
        },
        &order);
    void* result = nullptr;
    pthread_join(thread, &result);
    EXPECT_EQ(result, PTHREAD_CANCELED);
    return order.done;
  }
};

TEST_F(Cancel, WaitsUntilAWorkerIsWoken) {
  daemon.status().asleep.store(1);
  ASSERT_TRUE(cancelled([this] {
    ibv_send_wr wr{};
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_send(qp, &wr, &bad), 0);
  }));
  EXPECT_EQ(daemon.wakes(), 1U);
  ibv_send_wr wr{};
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(qp, &wr, &bad), 0);
}

TEST_F(Cancel, WaitsUntilTheDaemonHasAnswered) {
  ASSERT_TRUE(cancelled([this] {
    ibv_device_attr attributes{};
    EXPECT_EQ(ibv_query_device(context, &attributes), 0);
  }));
  ibv_device_attr attributes{};
  EXPECT_EQ(ibv_query_device(context, &attributes), 0);
}

}  // namespace
}  // namespace uroce::test
