// The ports that need nothing from the machine, and their building blocks.

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "dataplane/port/frame_pool.h"
#include "dataplane/port/link_port.h"
#include "dataplane/port/loopback_port.h"
#include "dataplane/port/ring.h"

namespace uroce {
namespace {

TEST(FramePool, GivesTheFrameReleasedLast) {
  FramePool pool(8, 1'500);
  std::array<Frame*, 3> frames{};
  ASSERT_EQ(pool.allocate(frames.data(), 3), 3U);
  pool.release(&frames[1], 1);
  Frame* again = nullptr;
  ASSERT_EQ(pool.allocate(&again, 1), 1U);
  EXPECT_EQ(again, frames[1]);
  EXPECT_EQ(again->capacity, 1'500U);
  pool.release(frames.data(), 3);
  EXPECT_EQ(pool.available(), 8U);
}

TEST(FramePool, GivesFewerWhenItRunsOut) {
  FramePool pool(4, 100);
  std::array<Frame*, 8> frames{};
  EXPECT_EQ(pool.allocate(frames.data(), 8), 4U);
  EXPECT_EQ(pool.allocate(frames.data() + 4, 1), 0U);
  pool.release(frames.data(), 4);
}

TEST(FramePool, SeveralThreadsShareIt) {
  constexpr std::uint32_t kFrames = 4'096;  // with depots
  FramePool pool(kFrames, 100);
  auto borrow = [&pool] {
    for (int i = 0; i < 500; ++i) {
      std::vector<Frame*> frames(kFrames / 2 + 100);  // together more than there are
      const std::uint32_t count =
          pool.allocate(frames.data(), static_cast<std::uint32_t>(frames.size()));
      for (std::uint32_t n = 0; n < count; ++n) {
        frames[n]->length = n;
        frames[n]->data[0] = std::byte{1};
      }
      pool.release(frames.data(), count);
    }
  };
  std::thread other(borrow);
  borrow();
  other.join();
  EXPECT_EQ(pool.available(), kFrames);
}

// Runs `run` on this processor, if the machine lets us choose.
void on_processor(unsigned processor, const std::function<void()>& run) {
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    sched_setaffinity(0, sizeof(one), &one);
    run();
  }).join();
}

// A pool with depots.
class FrameDepots : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kFrames =
      FramePool::kDepotFrames * FramePool::kDepotsPart * 2;  // for two depots

  // A burst that is allocated and released on this processor.
  std::vector<Frame*> borrow(unsigned processor, std::uint32_t count) {
    std::vector<Frame*> frames(count);
    on_processor(processor, [&] {
      ASSERT_EQ(pool_.allocate(frames.data(), count), count);
      pool_.release(frames.data(), count);
    });
    std::sort(frames.begin(), frames.end());
    return frames;
  }

  FramePool pool_{kFrames, 100};
};

TEST_F(FrameDepots, EachProcessorGetsItsOwnFramesBack) {
  cpu_set_t ours;
  if (sched_getaffinity(0, sizeof(ours), &ours) != 0 || !CPU_ISSET(0, &ours) ||
      !CPU_ISSET(1, &ours)) {
    GTEST_SKIP() << "the first two processors aren't ours";
  }
  const std::vector<Frame*> of_one = borrow(0, 32), of_other = borrow(1, 32);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(borrow(0, 32), of_one);
    EXPECT_EQ(borrow(1, 32), of_other);
  }
}

TEST_F(FrameDepots, OneProcessorGetsFramesReleasedOnAnother) {
  std::vector<Frame*> frames(kFrames);
  ASSERT_EQ(pool_.allocate(frames.data(), kFrames), kFrames);
  on_processor(1, [&] {
    for (Frame*& frame : frames) {
      pool_.release(&frame, 1);
    }
  });
  EXPECT_EQ(pool_.available(), kFrames);
  std::vector<Frame*> again(kFrames);
  on_processor(0, [&] { EXPECT_EQ(pool_.allocate(again.data(), kFrames), kFrames); });
  std::sort(frames.begin(), frames.end());
  std::sort(again.begin(), again.end());
  EXPECT_EQ(again, frames);
  pool_.release(again.data(), kFrames);
  EXPECT_EQ(pool_.available(), kFrames);
}

// One processor only allocates, the other only releases, as the two ends of a stream do.
TEST_F(FrameDepots, AStreamNeverRunsDry) {
  std::array<Frame*, 32> burst;
  for (std::uint32_t sent = 0; sent < 4 * kFrames; sent += burst.size()) {
    on_processor(0, [&] { ASSERT_EQ(pool_.allocate(burst.data(), burst.size()), burst.size()); });
    on_processor(1, [&] { pool_.release(burst.data(), burst.size()); });
  }
  EXPECT_EQ(pool_.available(), kFrames);
}

TEST(Ring, HoldsItsCapacityInOrder) {
  Ring<int> ring(8, Producers::kOne);
  std::array<int, 9> values{};
  std::array<int*, 9> pointers{};
  for (std::size_t i = 0; i < values.size(); ++i) {
    pointers[i] = &values[i];
  }
  EXPECT_EQ(ring.enqueue(pointers.data(), 9), 8U);
  EXPECT_EQ(ring.room(), 0U);
  std::array<int*, 9> out{};
  EXPECT_EQ(ring.dequeue(out.data(), 9), 8U);
  EXPECT_TRUE(std::equal(out.begin(), out.begin() + 8, pointers.begin()));
  EXPECT_TRUE(ring.empty());
}

TEST(Ring, SeveralProducersLoseNothing) {
  constexpr std::uintptr_t kEach = 20'000;
  std::vector<char> numbers(1 + 2 * kEach);  // indexed by the numbers
  Ring<char> ring(64, Producers::kSeveral);
  auto produce = [&](std::uintptr_t first) {
    for (std::uintptr_t i = 0; i < kEach; ++i) {
      char* element = &numbers[first + i];
      while (ring.enqueue(&element, 1) == 0) {
        std::this_thread::yield();
      }
    }
  };
  std::thread one(produce, 1);
  std::thread two(produce, 1 + kEach);
  std::uintptr_t sum = 0;
  for (std::uintptr_t count = 0; count < 2 * kEach;) {
    char* element = nullptr;
    if (ring.dequeue(&element, 1) == 1) {
      sum += static_cast<std::uintptr_t>(element - numbers.data());
      ++count;
    } else {
      std::this_thread::yield();
    }
  }
  one.join();
  two.join();
  EXPECT_EQ(sum, 2 * kEach * (2 * kEach + 1) / 2);
}

TEST(LoopbackPort, SentFramesComeBack) {
  LoopbackPort port(4'096, 2);
  EXPECT_EQ(port.info().speed_mbps, kMemorySpeedMbps);
  Frame* frame = nullptr;
  ASSERT_EQ(port.allocate(&frame, 1), 1U);
  ASSERT_GE(frame->capacity, 4'096U + kEthernetOverhead);
  frame->length = 64;
  EXPECT_TRUE(port.arm_wait(1));
  ASSERT_EQ(port.tx_burst(1, &frame, 1, 0), 1U);
  EXPECT_FALSE(port.arm_wait(1));
  Frame* back = nullptr;
  EXPECT_EQ(port.rx_burst(0, &back, 1, 0), 0U);
  ASSERT_EQ(port.rx_burst(1, &back, 1, 0), 1U);
  EXPECT_EQ(back, frame);
  port.release(&back, 1);
  EXPECT_EQ(port.counters().tx_bytes, 64U);
  EXPECT_EQ(port.counters().rx_frames, 1U);
  EXPECT_TRUE(port.info().loops_back);
}

TEST(LoopbackPort, PushesBackWhenFull) {
  LoopbackPort port(100, 1);
  std::vector<Frame*> frames(LoopbackPort::kRingEntries + 10);
  ASSERT_EQ(port.allocate(frames.data(), static_cast<std::uint32_t>(frames.size())), frames.size());
  EXPECT_EQ(port.tx_burst(0, frames.data(), static_cast<std::uint32_t>(frames.size()), 0),
            LoopbackPort::kRingEntries);
  EXPECT_EQ(port.counters().tx_refused, 10U);
}

TEST(LinkPort, CarriesFramesBothWays) {
  auto [a, b] = make_link({});
  for (Port* from : {a.get(), b.get()}) {
    Port* to = from == a.get() ? b.get() : a.get();
    Frame* frame = nullptr;
    ASSERT_EQ(from->allocate(&frame, 1), 1U);
    std::memcpy(frame->data, "hello", 5);
    frame->length = 5;
    ASSERT_EQ(from->tx_burst(0, &frame, 1, 0), 1U);
    Frame* back = nullptr;
    EXPECT_EQ(from->rx_burst(0, &back, 1, 0), 0U);
    ASSERT_EQ(to->rx_burst(0, &back, 1, 0), 1U);
    EXPECT_EQ(std::memcmp(back->data, "hello", 5), 0);
    to->release(&back, 1);
  }
  EXPECT_NE(a->info().mac, b->info().mac);
}

TEST(LinkPort, PushesBackWhenTheWireIsFull) {
  auto [a, b] = make_link({.wire_entries = 16, .frames = 64});
  std::array<Frame*, 32> frames{};
  ASSERT_EQ(a->allocate(frames.data(), 32), 32U);
  EXPECT_EQ(a->tx_burst(0, frames.data(), 32, 0), 16U);
  EXPECT_EQ(a->tx_burst(0, frames.data() + 16, 16, 0), 0U);
  std::array<Frame*, 32> back{};
  EXPECT_EQ(b->rx_burst(0, back.data(), 32, 0), 16U);
  EXPECT_EQ(a->tx_burst(0, frames.data() + 16, 16, 0), 16U);
}

}  // namespace
}  // namespace uroce
