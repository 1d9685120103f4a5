// The memory in which two shm ports build frames: in what order it is used, and what happens to it
// when the peer disappears.

#include <fstream>
#include <string>

#include "dataplane/engine/turn/tx_refill.h"
#include "dataplane/port/shm/shm_port.h"
#include "tests/unit/port/shm_pair.h"

namespace uroce {
namespace {

class ShmSlots : public test::ShmPair {
 protected:
  // Where near_ built a frame that far_ has received and released; nullptr: it didn't arrive.
  const std::byte* go_over_and_back(std::uint32_t payload) {
    Frame* frame = build(*near_, payload);
    const std::byte* const memory = frame == nullptr ? nullptr : frame->data;
    if (memory == nullptr || !send(*near_, frame) || (frame = receive(*far_)) == nullptr) {
      return nullptr;
    }
    far_->release(&frame, 1);
    return memory;
  }
};

// The cache lines of a long frame are with the other processor, and would have to be fetched from
// there.
TEST_F(ShmSlots, ALongFramesMemoryIsReusedLast) {
  join();
  const std::byte* const first = go_over_and_back(2'000);
  ASSERT_NE(first, nullptr);
  for (std::uint32_t others = 1; others < ShmLink::kSlotsPerQueue; ++others) {
    ASSERT_NE(go_over_and_back(2'000), first) << others;
  }
  EXPECT_EQ(go_over_and_back(2'000), first);
}

TEST_F(ShmSlots, AShortFramesMemoryIsReusedNext) {
  join();
  const std::byte* const first = go_over_and_back(8);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(go_over_and_back(8), first);
}

TEST_F(ShmSlots, FramesBuiltBeforeThePeerReturnedReachIt) {
  join();
  Frame* const early = build(*near_, 4'096);
  far_.reset();
  wait_until([this] { return !near_->info().link_up; });
  far_ = open(2);
  expect_joined();
  ASSERT_TRUE(send(*near_, early));
  Frame* frame = receive(*far_);
  ASSERT_NE(frame, nullptr);
  expect_payload(*frame);
  far_->release(&frame, 1);
}

// Such a frame is moved to other memory, keeping the workers' annotations.
TEST_F(ShmSlots, AMovedFrameKeepsItsAnnotations) {
  join();
  Frame* frame = build(*near_, 1'000);
  frame->hairpin = true;  // delivered to local members
  frame->sent_for = {.work_request = 77, .qpn = 5, .cause = SentFor::Cause::kGoBack};
  Frame* const early = frame;
  far_.reset();
  wait_until([this] { return !near_->info().link_up; });
  EXPECT_EQ(near_->tx_burst(0, &frame, 1, 0), 0U);
  ASSERT_NE(frame, early);
  EXPECT_TRUE(frame->hairpin);
  EXPECT_EQ(frame->sent_for.work_request, 77U);
  EXPECT_EQ(frame->sent_for.qpn, 5U);
  EXPECT_EQ(frame->sent_for.cause, SentFor::Cause::kGoBack);
  near_->release(&frame, 1);
}

// Workers that send little keep frames in stock for a long time; each round takes a few fewer than
// the one before, so that without generations some of each connection's frames would remain.
TEST_F(ShmSlots, FramesInStockDoNotKeepOldConnections) {
  near_ = open(1);
  TxBatch stock;
  std::uint32_t generation = near_->generation();
  constexpr std::uint32_t kRounds = ShmPort::kEndedMax + 3;
  static_assert(kRounds < kTurnBurst);
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(round);
    far_ = open(2);
    expect_joined();
    refill_tx(stock, *near_, kTurnBurst, &generation);
    ASSERT_EQ(stock.room(), kTurnBurst);
    for (std::uint32_t i = round + 1; i < kTurnBurst; ++i) {
      Frame* const frame = stock.take();
      frame->length = 60;
      ASSERT_TRUE(send(*near_, frame));
    }
    far_.reset();
    wait_until([this] { return !near_->info().link_up; });
  }
  near_->release(stock.free_frames(), stock.room());
}

TEST_F(ShmSlots, MemoryOfAPeerThatHasGoneIsUnmappedWithoutANewOne) {
  join();
  ASSERT_TRUE(send(*far_, build(*far_, 2'000)));
  Frame* held = receive(*near_);
  ASSERT_NE(held, nullptr);
  far_.reset();
  wait_until([this] { return !near_->info().link_up; });
  auto mapped = [] {
    std::ifstream maps("/proc/self/maps");
    std::uint32_t count = 0;
    for (std::string line; std::getline(maps, line);) {
      count += line.find("uroce-wire") != std::string::npos ? 1 : 0;
    }
    return count;
  };
  // The memory of both ends, and of the next connection; one more for a while if this end connected
  // to the old listener once more.
  wait_until([&] { return mapped() == 3; });
  near_->release(&held, 1);
  wait_until([&] { return mapped() == 1; });
}

}  // namespace
}  // namespace uroce
