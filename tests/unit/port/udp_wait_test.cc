// When the sockets of a udp port are watched. A pair of connected sockets stands in for each.

#include "dataplane/port/udp/udp_wait.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>

namespace uroce {
namespace {

class UdpWaits : public ::testing::Test {
 protected:
  void SetUp() override {
    for (Pair& pair : pairs_) {
      std::array<int, 2> ends{};
      ASSERT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends.data()), 0);
      pair.near = UniqueFd(ends[0]);
      pair.far = UniqueFd(ends[1]);
    }
    ASSERT_GE(wait_.descriptor(), 0);
    wait_.add(pairs_[0].near.get());
  }

  void send(std::size_t pair) { ASSERT_EQ(::send(pairs_[pair].far.get(), "x", 1, 0), 1); }
  void take(std::size_t pair) {
    char byte = 0;
    ASSERT_EQ(::recv(pairs_[pair].near.get(), &byte, 1, MSG_DONTWAIT), 1);
  }
  [[nodiscard]] bool wakes() const {
    pollfd readable{.fd = wait_.descriptor(), .events = POLLIN, .revents = 0};
    return ::poll(&readable, 1, 0) == 1;
  }

  struct Pair {
    UniqueFd near, far;
  };
  std::array<Pair, 2> pairs_;
  UdpWait wait_;
};

TEST_F(UdpWaits, nothing_is_watched_before_a_worker_sleeps) {
  send(0);
  EXPECT_FALSE(wakes());
  EXPECT_FALSE(wait_.arm()) << "the final check finds what arrived unwatched";
  EXPECT_TRUE(wakes());
  take(0);
  EXPECT_TRUE(wait_.arm());
  EXPECT_FALSE(wakes());
}

TEST_F(UdpWaits, a_busy_worker_does_not_watch) {
  EXPECT_TRUE(wait_.arm());
  wait_.disarm();
  for (int i = 1; i < UdpWait::kBurstsWatched; ++i) {
    wait_.burst();
  }
  send(0);
  EXPECT_TRUE(wakes()) << "it may have gone back to sleep by now";
  wait_.burst();
  EXPECT_FALSE(wakes());
  take(0);
  EXPECT_TRUE(wait_.arm());
  send(0);
  EXPECT_TRUE(wakes());
}

// A worker that sleeps after every message keeps watching.
TEST_F(UdpWaits, bursts_are_counted_from_the_last_sleep_on) {
  for (int i = 0; i < 4 * UdpWait::kBurstsWatched; ++i) {
    EXPECT_TRUE(wait_.arm());
    wait_.disarm();
    wait_.burst();
  }
  send(0);
  EXPECT_TRUE(wakes());
}

// Control may send on behalf of a sleeping worker.
TEST_F(UdpWaits, sends_during_a_sleep_end_no_watch) {
  EXPECT_TRUE(wait_.arm());
  for (int i = 0; i < 4 * UdpWait::kBurstsWatched; ++i) {
    wait_.burst();
  }
  send(0);
  EXPECT_TRUE(wakes());
}

TEST_F(UdpWaits, addresses_come_and_go_while_the_worker_sleeps) {
  EXPECT_TRUE(wait_.arm());
  wait_.add(pairs_[1].near.get());
  send(1);
  EXPECT_TRUE(wakes());
  wait_.remove(pairs_[1].near.get());
  EXPECT_FALSE(wakes());
  send(0);
  EXPECT_TRUE(wakes());
}

}  // namespace
}  // namespace uroce
