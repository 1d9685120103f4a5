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

  void raise(std::uint32_t worker, std::byte* host) {
    Flush* const flush = queue_.take({.address = 0, .length = kPage});
    flush->worker = worker;
    flush->durable = std::make_shared<const DurableMemory>(
        0, std::vector<Region::Piece>{{.start = 0, .length = kPage, .host = host}},
        std::vector<std::shared_ptr<const void>>{});
    queue_.raise(flush);
  }
  Access outcome(std::uint32_t worker) {
    Flush* flush = nullptr;
    while ((flush = queue_.next_resumed(worker)) == nullptr) {
      std::this_thread::yield();
    }
    const Access outcome = flush->outcome;
    queue_.give_back(flush);
    return outcome;
  }

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

TEST_F(FlushThreadTest, EndsWithPendingFlushes) {
  raise(0, page_);
  thread_.stop();
  EXPECT_FALSE(queue_.empty());
}

}  // namespace
}  // namespace uroce::control
