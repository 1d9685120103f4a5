// The daemon dies while a thread is creating a queue or queue pair, which others can find already.

#include <atomic>
#include <cerrno>
#include <thread>

#include "tests/unit/shim/verbs_fixture.h"

namespace uroce::test {
namespace {

class Unfinished : public VerbsFixture {};

TEST_F(Unfinished, CompletionQueuesWakeNobody) {
  daemon.hold(abi::Command::kCreateCq);
  ibv_cq* fresh = nullptr;
  std::thread maker([&] { fresh = ibv_create_cq(context, 4, nullptr, channel, 0); });
  daemon.await_held();
  daemon.end_channel();
  ibv_cq* told = nullptr;
  void* told_context = nullptr;
  EXPECT_EQ(ibv_get_cq_event(channel, &told, &told_context), -1);
  EXPECT_EQ(errno, ENODEV);
  daemon.release();
  maker.join();
  ASSERT_NE(fresh, nullptr);
  EXPECT_EQ(ibv_destroy_cq(fresh), 0);
}

// For ThreadSanitizer: the rings become known to threads that flush them. Only joining the thread
// that made them orders it after these.
TEST_F(Unfinished, QueuePairsAreFlushedWhenTheyAreWhole) {
  std::atomic<bool> made{false};
  ibv_qp* fresh = nullptr;
  std::thread maker([&] {
    fresh = create_qp();
    made.store(true, std::memory_order_relaxed);
  });
  while (!made.load(std::memory_order_relaxed)) {
    std::this_thread::yield();
  }
  daemon.die();
  ibv_wc wc{};
  while (ibv_poll_cq(cq, 1, &wc) >= 0) {
  }
  maker.join();
  ASSERT_NE(fresh, nullptr);
  EXPECT_EQ(ibv_destroy_qp(fresh), 0);
}

// The same of a completion queue's control.
TEST_F(Unfinished, CompletionQueuesAreWokenWhenTheyAreWhole) {
  std::atomic<bool> made{false};
  ibv_cq* fresh = nullptr;
  std::thread maker([&] {
    fresh = ibv_create_cq(context, 4, nullptr, channel, 0);
    made.store(true, std::memory_order_relaxed);
  });
  while (!made.load(std::memory_order_relaxed)) {
    std::this_thread::yield();
  }
  daemon.die();
  ibv_cq* told = nullptr;
  void* told_context = nullptr;
  EXPECT_EQ(ibv_get_cq_event(channel, &told, &told_context), -1);
  maker.join();
  ASSERT_NE(fresh, nullptr);
  EXPECT_EQ(ibv_destroy_cq(fresh), 0);
}

}  // namespace
}  // namespace uroce::test
