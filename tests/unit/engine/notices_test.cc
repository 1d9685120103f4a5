// The queue from workers to control: which notices find room, and when its descriptor is readable.

#include "dataplane/engine/threads/notices.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <thread>
#include <vector>

#include "dataplane/wire/address.h"

namespace uroce::test {
namespace {

TEST(Notices, AreReadableWhileThereAreAny) {
  Notices notices;
  pollfd waiting{.fd = notices.descriptor(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&waiting, 1, 0), 0);
  notices.announce(AsyncEvent::kCommEst, 17);
  const std::vector<std::byte> frame(60, std::byte{3});
  EXPECT_TRUE(notices.take(2, frame));
  EXPECT_EQ(poll(&waiting, 1, 0), 1);
  Notice notice;
  ASSERT_TRUE(notices.next(&notice));
  EXPECT_EQ(notice.kind, Notice::Kind::kAsyncEvent);
  EXPECT_EQ(notice.object, 17U);
  ASSERT_TRUE(notices.next(&notice));
  EXPECT_EQ(notice.kind, Notice::Kind::kFrame);
  EXPECT_EQ(notice.port, 2U);
  EXPECT_EQ(notice.bytes, frame);
  EXPECT_FALSE(notices.next(&notice));
  EXPECT_EQ(poll(&waiting, 1, 0), 0);
}

TEST(Notices, AFloodOfOneKindLeavesRoomForTheOthers) {
  Notices notices;
  std::vector<std::byte> frame(60);
  for (int round = 0; round < 2; ++round) {
    std::uint32_t frames = 0;
    const std::uint64_t dropped = notices.dropped();
    for (std::uint32_t i = 0; i < 4 * Notices::kFramesMax; ++i) {
      frame[11] = static_cast<std::byte>(i);  // a byte of the sender's Ethernet address
      frames += notices.take(0, frame) ? 1 : 0;
    }
    EXPECT_EQ(frames, Notices::kFramesMax);
    EXPECT_EQ(notices.dropped() - dropped, 3 * Notices::kFramesMax);
    EXPECT_TRUE(notices.take_mad(0, frame, Gid{}));
    for (std::uint32_t i = 0; i < Notices::kFailuresMax + 100; ++i) {
      notices.report({.owner = i});
    }
    notices.announce(AsyncEvent::kQpFatal, 5);
    std::array<std::uint32_t, 4> found{};
    for (Notice notice; notices.next(&notice);) {
      ++found[static_cast<std::size_t>(notice.kind)];
    }
    EXPECT_EQ(found,
              (std::array<std::uint32_t, 4>{Notices::kFramesMax, 1, Notices::kFailuresMax, 1}));
  }
}

// A host dies to which tens of thousands of queue pairs were connected, and control is slow.
TEST(Notices, EventsOfAllQueuePairsHaveRoom) {
  constexpr std::uint32_t kQps = 65'536;
  Notices notices;
  const std::vector<std::byte> frame(60);
  for (std::uint32_t i = 0; i < kQps; ++i) {
    notices.announce(AsyncEvent::kQpFatal, i);
    notices.announce(AsyncEvent::kQpLastWqeReached, i);
  }
  ASSERT_TRUE(notices.take(0, frame));
  EXPECT_EQ(notices.dropped(), 0U);
  std::uint32_t found = 0, before_the_frame = kQps;
  for (Notice notice; notices.next(&notice);) {
    if (notice.kind == Notice::Kind::kFrame) {
      before_the_frame = found;
      continue;
    }
    ASSERT_EQ(notice.object, found / 2);
    ASSERT_EQ(notice.event, found % 2 == 0 ? AsyncEvent::kQpFatal : AsyncEvent::kQpLastWqeReached);
    ++found;
  }
  EXPECT_EQ(found, 2 * kQps);
  EXPECT_LE(before_the_frame, 1U) << "events give way to other kinds";
}

// A flooding sender gets at most a quarter of the places; a frame of another sender finds room.
TEST(Notices, OneSenderLeavesRoomForTheOthers) {
  Notices notices;
  std::vector<std::byte> frame(60);
  const Gid flooder = *parse_ip("fd00:66::1"), other = *parse_ip("10.0.0.1");
  for (int round = 0; round < 2; ++round) {
    std::uint32_t mads = 0, frames = 0;
    for (std::uint32_t i = 0; i < 2 * Notices::kMadsMax; ++i) {
      Gid of_his_network = flooder;
      of_his_network.bytes[15] = static_cast<std::uint8_t>(i);
      mads += notices.take_mad(0, frame, of_his_network) ? 1 : 0;
      frames += notices.take(0, frame) ? 1 : 0;
    }
    EXPECT_EQ(mads, Notices::kMadsMax / Notices::kGroupShare);
    EXPECT_EQ(frames, Notices::kFramesMax / Notices::kGroupShare);
    EXPECT_TRUE(notices.take_mad(0, frame, other));
    for (std::uint32_t i = 0; i < 2 * Notices::kFailuresMax; ++i) {
      notices.report({.owner = 5});
    }
    const std::uint64_t dropped = notices.dropped();
    notices.report({.owner = 6});
    EXPECT_EQ(notices.dropped(), dropped) << "another program's failure finds room";
    for (Notice notice; notices.next(&notice);) {
    }
  }
}

// Nothing is left in the queue although the descriptor is written once for many notices.
TEST(Notices, ComeFromSeveralThreads) {
  constexpr std::uint32_t kEach = 20'000;
  Notices notices;
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&notices] {
      for (std::uint32_t sent = 0; sent < kEach;) {
        if (notices.take(0, std::vector<std::byte>(60))) {
          ++sent;
        } else {
          std::this_thread::yield();
        }
      }
    });
  }
  std::uint32_t received = 0;
  while (received < 2 * kEach) {
    pollfd waiting{.fd = notices.descriptor(), .events = POLLIN, .revents = 0};
    ASSERT_EQ(poll(&waiting, 1, 10'000), 1)
        << received << " received, and the rest is left in the queue";
    Notice notice;
    for (int i = 0; i < 5 && notices.next(&notice); ++i) {
      ++received;
    }
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

}  // namespace
}  // namespace uroce::test
