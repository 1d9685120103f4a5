// The flush thread alone: flushes pass from their worker to it and back, whatever the fault thread
// does.

#include "control/paging/flush_thread.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <thread>

#include "mmu/pinned/durable_memory.h"
#include "tests/unit/control/paging/paging_program.h"

namespace uroce::control {
namespace {

class FlushThreadTest : public ::testing::Test {
 protected:
  FlushThreadTest()
      : page_(static_cast<std::byte*>(
            ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~FlushThreadTest() override { ::munmap(page_, kPage); }

  void raise(std::uint32_t worker, std::byte* host, std::uint64_t user = 0) {
    Flush* const flush = queue_.take({.address = 0, .length = kPage});
    flush->worker = worker;
    flush->user = user;
    flush->durable = std::make_shared<const DurableMemory>(
        0, std::vector<Region::Piece>{{.start = 0, .length = kPage, .host = host}},
        std::vector<std::shared_ptr<const void>>{});
    queue_.raise(flush);
  }
  Flush next_done(std::uint32_t worker) {
    Flush* flush = nullptr;
    while ((flush = queue_.next_resumed(worker)) == nullptr) {
      std::this_thread::yield();
    }
    Flush done = *flush;
    queue_.give_back(flush);
    return done;
  }
  Access outcome(std::uint32_t worker) { return next_done(worker).outcome; }

  std::byte* page_;
  FlushQueue queue_{2};
  FlushThread thread_{queue_};
};

TEST_F(FlushThreadTest, EachComesBackToItsWorkerInOrder) {
  raise(0, page_);
  raise(0, nullptr);
  raise(1, page_);
  ASSERT_TRUE(thread_.start());
  EXPECT_EQ(outcome(1), Access::kGranted);
  EXPECT_EQ(outcome(0), Access::kGranted);
  EXPECT_EQ(outcome(0), Access::kLost) << "memory that is reached by copying is on no disk";
  // By now the thread sleeps, or is about to.
  raise(1, page_);
  EXPECT_EQ(outcome(1), Access::kGranted);
  thread_.stop();
}

// However many FLUSHes one user has raised, another one waits for one of them.
TEST_F(FlushThreadTest, UsersTakeTurns) {
  for (const std::uint64_t user : {1U, 1U, 1U, 2U, 3U, 2U}) {
    raise(0, page_, user);
  }
  ASSERT_TRUE(thread_.start());
  for (const std::uint64_t user : {1U, 2U, 3U, 1U, 2U, 1U}) {
    EXPECT_EQ(next_done(0).user, user);
  }
  thread_.stop();
}

TEST_F(FlushThreadTest, EndsWithPendingFlushes) {
  raise(0, page_);
  thread_.stop();
  EXPECT_FALSE(queue_.empty());
}

}  // namespace
}  // namespace uroce::control
