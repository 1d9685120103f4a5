#include "mmu/faults/fault_queue.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "mmu/mirror/mirror.h"
#include "mmu/quiescence.h"

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

// The faults of a program that doesn't answer keep their records until the pager's timeout.
TEST(FaultQueue, OneSessionAndOneUserLeaveRecordsToOthers) {
  Quiescence quiescence;
  FaultQueue queue(1);
  const auto user = std::make_shared<FaultCount>(0);
  std::vector<std::shared_ptr<Mirror>> mirrors;
  for (int i = 0; i < 4; ++i) {
    mirrors.push_back(
        std::make_shared<Mirror>(quiescence, UniqueFd(), i, make_private_account(), user));
  }
  const auto take_all = [&](const std::shared_ptr<Mirror>& mirror) {
    std::vector<PageFault*> taken;
    while (PageFault* fault = queue.take({.length = 8}, mirror)) {
      taken.push_back(fault);
    }
    return taken;
  };
  std::vector<PageFault*> first = take_all(mirrors[0]);
  EXPECT_EQ(first.size(), FaultQuota::kSessionMax);
  std::size_t all = first.size();
  for (const auto& mirror : {mirrors[1], mirrors[2], mirrors[3]}) {
    all += take_all(mirror).size();
  }
  EXPECT_EQ(all, FaultQueue::kRecords / 2);
  const auto other = std::make_shared<Mirror>(quiescence, UniqueFd(), 9);
  EXPECT_EQ(take_all(other).size(), FaultQuota::kSessionMax);
  const auto third = std::make_shared<Mirror>(quiescence, UniqueFd(), 10);
  EXPECT_EQ(take_all(third).size(), (FaultQueue::kRecords - all - FaultQuota::kSessionMax) / 2);
  // Records of finished faults can be taken again.
  queue.resume(first.front());
  queue.give_back(queue.next_resumed(0));
  const auto fourth = std::make_shared<Mirror>(quiescence, UniqueFd(), 11);
  EXPECT_NE(queue.take({.length = 8}, fourth), nullptr);
}

}  // namespace
}  // namespace uroce::test
