#include "mmu/fault_queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace uroce::test {
namespace {

std::vector<PageFault*> take_all(FaultQueue& queue, const FaultRequest& request) {
  std::vector<PageFault*> taken;
  while (PageFault* fault = queue.take(request)) {
    taken.push_back(fault);
  }
  return taken;
}

TEST(FaultQueue, RecordsRunOutAndComeBack) {
  FaultQueue queue(1);
  const std::vector<PageFault*> taken = take_all(queue, {.length = 8});
  EXPECT_EQ(taken.size(), FaultQueue::kRecords);
  EXPECT_EQ(queue.take({.length = 8, .flush = true}), nullptr);
  queue.give_back(taken.back());
  EXPECT_NE(queue.take({.length = 8}), nullptr);
}

// Whoever waits for a disk doesn't keep others' page faults waiting.
TEST(FaultQueue, FlushesLeaveRecordsToFaults) {
  FaultQueue queue(1);
  const std::vector<PageFault*> flushes = take_all(queue, {.length = 8, .flush = true});
  EXPECT_EQ(flushes.size(), FaultQueue::kFlushesMax);
  const std::vector<PageFault*> faults = take_all(queue, {.length = 8});
  EXPECT_EQ(faults.size(), FaultQueue::kRecords - FaultQueue::kFlushesMax);
  for (PageFault* fault : faults) {
    queue.give_back(fault);
  }
  EXPECT_EQ(queue.take({.length = 8, .flush = true}), nullptr);
  queue.give_back(flushes.back());
  EXPECT_NE(queue.take({.length = 8, .flush = true}), nullptr);
}

}  // namespace
}  // namespace uroce::test
