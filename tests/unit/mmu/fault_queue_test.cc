#include "mmu/fault_queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace uroce::test {
namespace {

TEST(FaultQueue, RecordsRunOutAndComeBack) {
  FaultQueue queue(1);
  std::vector<PageFault*> taken;
  while (PageFault* fault = queue.take({.length = 8})) {
    taken.push_back(fault);
  }
  EXPECT_EQ(taken.size(), FaultQueue::kRecords);
  queue.give_back(taken.back());
  EXPECT_NE(queue.take({.length = 8}), nullptr);
}

TEST(FaultQueue, AFaultComesBackToTheWorkerThatRaisedIt) {
  FaultQueue queue(2);
  std::uint32_t woken = 0;
  queue.wake_worker = [&](std::uint32_t worker) { woken = worker; };
  PageFault* const fault = queue.take({.address = 4096, .length = 8});
  fault->worker = 1;
  queue.raise(fault);
  ASSERT_EQ(queue.next(), fault);
  EXPECT_TRUE(queue.empty());
  queue.resume(fault);
  EXPECT_EQ(woken, 1U);
  EXPECT_FALSE(queue.has_resumed(0));
  EXPECT_TRUE(queue.has_resumed(1));
  EXPECT_EQ(queue.next_resumed(1), fault);
  EXPECT_EQ(fault->request.address, 4096U);
}

}  // namespace
}  // namespace uroce::test
