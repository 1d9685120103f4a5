#include "dataplane/qp/queues/receive_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "apps/replay/rings.h"
#include "tests/qp/rig.h"

namespace uroce::test {
namespace {

RingResize* fresh_srq_move(RingResize* move) {
  *move = {};
  return move;
}

constexpr std::uint32_t kReceives = 4;
constexpr std::uint32_t kSges = 3;

class ReceiveQueueTest : public testing::Test {
 protected:
  void post(std::uint64_t wr_id, std::size_t sges) {
    const std::vector<abi::Sge> list(sges, abi::Sge{.address = wr_id, .length = 1, .lkey = 2});
    ring_.post_receive(wr_id, list);
  }

  WorkRing ring_{kReceives, abi::recv_stride(kSges)};
  ReceiveQueue queue_{{.handle = 1,
                       .control = &ring_.control,
                       .entries = ring_.entries.data(),
                       .entry_count = kReceives,
                       .stride = ring_.stride,
                       .sge_max = kSges,
                       .users = ReceiveQueue::Users::kOneQp}};
  EventLog events_;
  ReceiveEntry entry_;
};

class SharedReceiveQueueTest : public testing::Test {
 protected:
  void post(int count) {
    for (int i = 0; i < count; ++i) {
      ring_.post_receive(static_cast<std::uint64_t>(i), {});
    }
  }
  void take(int count) {
    for (int i = 0; i < count; ++i) {
      ASSERT_EQ(queue_.take(&entry_, events_), ReceiveQueue::Take::kTaken);
    }
  }
  [[nodiscard]] std::size_t announced(AsyncEvent event) const {
    return static_cast<std::size_t>(std::count_if(
        events_.entries.begin(), events_.entries.end(), [event](const EventLog::Entry& entry) {
          return entry.event == event && entry.object == kNumber;
        }));
  }

  static constexpr std::uint32_t kNumber = 77;
  WorkRing ring_{kReceives, abi::recv_stride(kSges)};
  ReceiveQueue queue_{{.handle = kNumber,
                       .control = &ring_.control,
                       .entries = ring_.entries.data(),
                       .entry_count = kReceives,
                       .stride = ring_.stride,
                       .sge_max = kSges,
                       .users = ReceiveQueue::Users::kOneWorker}};
  EventLog events_;
  ReceiveEntry entry_;
};

TEST_F(ReceiveQueueTest, TakesInOrderAndFreesTheSlots) {
  for (std::uint64_t round = 0; round < 5; ++round) {
    for (std::uint64_t i = 0; i < kReceives; ++i) {
      post(round * 10 + i, i);
    }
    EXPECT_FALSE(queue_.empty());
    for (std::uint64_t i = 0; i < kReceives; ++i) {
      ASSERT_EQ(queue_.take(&entry_, events_), ReceiveQueue::Take::kTaken);
      EXPECT_EQ(entry_.wr_id, round * 10 + i);
      ASSERT_EQ(entry_.sge_count, i);
      if (i != 0) {
        EXPECT_EQ(entry_.sges[i - 1].address, round * 10 + i);
      }
    }
    EXPECT_EQ(ring_.waiting(), kReceives) << "no slot has been freed";
    queue_.release();
    EXPECT_EQ(ring_.waiting(), 0U);
    EXPECT_TRUE(queue_.empty());
    EXPECT_EQ(queue_.take(&entry_, events_), ReceiveQueue::Take::kEmpty);
  }
}

TEST_F(ReceiveQueueTest, BreaksOnADistanceBeyondTheRing) {
  ring_.control.producer.value.store(kReceives + 1);
  EXPECT_EQ(queue_.take(&entry_, events_), ReceiveQueue::Take::kBroken);
  ring_.control.producer.value.store(1);
  EXPECT_EQ(queue_.take(&entry_, events_), ReceiveQueue::Take::kBroken) << "it stays broken";
}

TEST_F(ReceiveQueueTest, ReadsTheProgramsIndexOnceAllItKnowsOfIsTaken) {
  post(1, 1);
  post(2, 1);
  ASSERT_EQ(queue_.take(&entry_, events_), ReceiveQueue::Take::kTaken);
  ring_.control.producer.value.store(2 + kReceives + 1);
  ASSERT_EQ(queue_.take(&entry_, events_), ReceiveQueue::Take::kTaken);
  EXPECT_EQ(entry_.wr_id, 2U);
  EXPECT_EQ(queue_.take(&entry_, events_), ReceiveQueue::Take::kBroken);
}

TEST_F(SharedReceiveQueueTest, TheLimitCountsWhatWasPostedMeanwhile) {
  post(2);
  take(1);
  post(2);
  ASSERT_FALSE(queue_.arm(2));
  take(1);
  EXPECT_EQ(announced(AsyncEvent::kSrqLimitReached), 0U) << "two are left";
  take(1);
  EXPECT_EQ(announced(AsyncEvent::kSrqLimitReached), 1U);
}

TEST_F(ReceiveQueueTest, BreaksOnTooManySges) {
  post(1, kSges);
  const std::uint32_t many = kSges + 1;
  std::memcpy(ring_.entries.data() + offsetof(abi::RecvWr, sge_count), &many, sizeof(many));
  EXPECT_EQ(queue_.take(&entry_, events_), ReceiveQueue::Take::kBroken);
}

TEST_F(ReceiveQueueTest, ResetForgetsWhatWasPosted) {
  post(1, 1);
  queue_.reset();
  EXPECT_EQ(queue_.take(&entry_, events_), ReceiveQueue::Take::kEmpty);
  post(2, 1);
  ASSERT_EQ(queue_.take(&entry_, events_), ReceiveQueue::Take::kTaken);
  EXPECT_EQ(entry_.wr_id, 2U);
}

TEST_F(ReceiveQueueTest, AnnouncesNothingForItsOwnQueuePair) {
  ring_.control.producer.value.store(kReceives + 1);
  EXPECT_EQ(queue_.take(&entry_, events_), ReceiveQueue::Take::kBroken);
  EXPECT_TRUE(events_.entries.empty()) << "the queue pair announces QP_FATAL";
}

TEST_F(SharedReceiveQueueTest, GivesNoReceivesOnceGivenUp) {
  post(1);
  EXPECT_TRUE(queue_.set_broken());
  EXPECT_FALSE(queue_.set_broken()) << "only the first call";
  EXPECT_EQ(queue_.take(&entry_, events_), ReceiveQueue::Take::kBroken);
  EXPECT_TRUE(events_.entries.empty()) << "the caller announces it";
}

TEST_F(SharedReceiveQueueTest, TheLimitIsAnnouncedOnceForEachArming) {
  post(4);
  EXPECT_FALSE(queue_.arm(3));
  EXPECT_EQ(queue_.limit(), 3U);
  take(1);
  EXPECT_EQ(announced(AsyncEvent::kSrqLimitReached), 0U) << "three are left, not fewer";
  take(1);
  EXPECT_EQ(announced(AsyncEvent::kSrqLimitReached), 1U);
  EXPECT_EQ(queue_.limit(), 0U) << "it has to be armed again";
  take(2);
  EXPECT_EQ(announced(AsyncEvent::kSrqLimitReached), 1U);
  post(4);
  EXPECT_FALSE(queue_.arm(1));
  take(4);
  EXPECT_EQ(announced(AsyncEvent::kSrqLimitReached), 2U);
}

TEST_F(SharedReceiveQueueTest, ArmingALimitThatIsAlreadyReachedReturnsThat) {
  post(2);
  EXPECT_TRUE(queue_.arm(3));
  EXPECT_EQ(queue_.limit(), 0U);
  take(2);
  EXPECT_EQ(announced(AsyncEvent::kSrqLimitReached), 0U) << "the caller announces it";
}

TEST_F(SharedReceiveQueueTest, SlotsAreFreeWhenTaken) {
  post(2);
  take(1);
  EXPECT_EQ(ring_.waiting(), 1U);
  take(1);
  EXPECT_EQ(ring_.waiting(), 0U);
}

TEST_F(SharedReceiveQueueTest, ZeroDisarms) {
  post(2);
  EXPECT_FALSE(queue_.arm(2));
  EXPECT_FALSE(queue_.arm(0));
  take(2);
  EXPECT_TRUE(events_.entries.empty());
}

TEST_F(SharedReceiveQueueTest, KeepsPostedReceivesWhenResized) {
  RingResize move;
  std::vector<std::byte> larger(std::size_t{2 * kReceives} * ring_.stride);
  post(4);
  take(3);
  post(2);  // past the end of the old ring: slots 3, 0, 1 are posted
  ASSERT_TRUE(queue_.resize(larger.data(), 2 * kReceives, fresh_srq_move(&move)));
  for (const std::uint64_t expected : {3U, 0U, 1U}) {
    ASSERT_EQ(queue_.take(&entry_, events_), ReceiveQueue::Take::kTaken);
    EXPECT_EQ(entry_.wr_id, expected);
  }
  EXPECT_TRUE(queue_.empty());
  std::vector<std::byte> smaller(std::size_t{2} * ring_.stride);
  EXPECT_TRUE(queue_.resize(smaller.data(), 2, fresh_srq_move(&move)));
  ring_.control.producer.value.fetch_add(3);
  EXPECT_EQ(queue_.take(&entry_, events_), ReceiveQueue::Take::kBroken) << "it holds two now";
}

TEST_F(SharedReceiveQueueTest, IsUnchangedIfTheNewRingIsTooSmall) {
  RingResize move;
  std::vector<std::byte> smaller(std::size_t{2} * ring_.stride);
  post(4);
  EXPECT_FALSE(queue_.arm(1));
  EXPECT_EQ(queue_.resize(smaller.data(), 2, fresh_srq_move(&move)).error().code, EINVAL);
  EXPECT_EQ(queue_.limit(), 1U);
  take(2);
  EXPECT_TRUE(queue_.resize(smaller.data(), 2, fresh_srq_move(&move)));
  EXPECT_EQ(queue_.limit(), 1U);
  take(2);
}

TEST_F(SharedReceiveQueueTest, ABrokenRingIsNotCopied) {
  RingResize move;
  ring_.control.producer.value.store(kReceives + 1);
  std::vector<std::byte> larger(std::size_t{8} * ring_.stride);
  EXPECT_EQ(queue_.resize(larger.data(), 8, fresh_srq_move(&move)).error().code, EINVAL);
}

TEST_F(SharedReceiveQueueTest, ABrokenRingIsAnnouncedOnce) {
  ring_.control.producer.value.store(kReceives + 1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(queue_.take(&entry_, events_), ReceiveQueue::Take::kBroken);
  }
  EXPECT_EQ(announced(AsyncEvent::kSrqErr), 1U);
  EXPECT_EQ(events_.entries.size(), 1U);
}

}  // namespace
}  // namespace uroce::test
