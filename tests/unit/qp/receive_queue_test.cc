#include "dataplane/qp/receive_queue.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/qp/rings.h"

namespace uroce::test {
namespace {

constexpr std::uint32_t kEntries = 4;
constexpr std::uint32_t kSges = 3;

class ReceiveQueueTest : public testing::Test {
 protected:
  void post(std::uint64_t wr_id, std::size_t sges) {
    const std::vector<abi::Sge> list(sges, abi::Sge{.address = wr_id, .length = 1, .lkey = 2});
    ring_.post_receive(wr_id, list);
  }

  WorkRing ring_{kEntries, abi::recv_stride(kSges)};
  ReceiveQueue queue_{1,     &ring_.control, ring_.entries.data(), kEntries, ring_.stride,
                      kSges, false};
  ReceiveEntry entry_;
};

TEST_F(ReceiveQueueTest, TakesInOrderAndFreesTheSlots) {
  for (std::uint64_t round = 0; round < 5; ++round) {
    for (std::uint64_t i = 0; i < kEntries; ++i) {
      post(round * 10 + i, i);
    }
    EXPECT_FALSE(queue_.empty());
    for (std::uint64_t i = 0; i < kEntries; ++i) {
      ASSERT_EQ(queue_.take(&entry_), ReceiveQueue::Take::kTaken);
      EXPECT_EQ(entry_.wr_id, round * 10 + i);
      ASSERT_EQ(entry_.sge_count, i);
      if (i != 0) {
        EXPECT_EQ(entry_.sges[i - 1].address, round * 10 + i);
      }
    }
    EXPECT_EQ(ring_.waiting(), 0U);
    EXPECT_TRUE(queue_.empty());
    EXPECT_EQ(queue_.take(&entry_), ReceiveQueue::Take::kEmpty);
  }
}

TEST_F(ReceiveQueueTest, BreaksOnADistanceBeyondTheRing) {
  ring_.control.producer.value.store(kEntries + 1);
  EXPECT_EQ(queue_.take(&entry_), ReceiveQueue::Take::kBroken);
  ring_.control.producer.value.store(1);
  EXPECT_EQ(queue_.take(&entry_), ReceiveQueue::Take::kBroken) << "for good";
}

TEST_F(ReceiveQueueTest, BreaksOnTooManySges) {
  post(1, kSges);
  const std::uint32_t many = kSges + 1;
  std::memcpy(ring_.entries.data() + offsetof(abi::RecvWr, sge_count), &many, sizeof(many));
  EXPECT_EQ(queue_.take(&entry_), ReceiveQueue::Take::kBroken);
}

TEST_F(ReceiveQueueTest, ResetForgetsWhatWasPosted) {
  post(1, 1);
  queue_.reset();
  EXPECT_EQ(queue_.take(&entry_), ReceiveQueue::Take::kEmpty);
  post(2, 1);
  ASSERT_EQ(queue_.take(&entry_), ReceiveQueue::Take::kTaken);
  EXPECT_EQ(entry_.wr_id, 2U);
}

}  // namespace
}  // namespace uroce::test
