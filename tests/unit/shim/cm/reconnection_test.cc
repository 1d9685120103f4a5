// Channels that are connected with the next daemon: what other threads do meanwhile, and many of
// them.

#include <fcntl.h>
#include <sys/epoll.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <future>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "tests/unit/shim/cm/removal_fixture.h"
#include "tests/unit/shim/fake_daemon.h"
#include "verbs_shim/cm/channel_table.h"
#include "verbs_shim/cm/cm_channels.h"
#include "verbs_shim/cm/cm_device.h"
#include "verbs_shim/cm/cm_ids.h"

namespace uroce::test {
namespace {

using ReconnectedCmDevice = RemovalCmDevice;

// Makes an id in a channel whose daemon is gone, on a thread of its own, until the next daemon
// holds back its answer.
class Reconnection {
 public:
  Reconnection(int channel, FakeDaemon& next) : next_(next) {
    next.hold(abi::Command::kCmOpenChannel);
    thread_ = std::thread([this, channel] {
      rdma_ucm_create_id_resp response{};
      struct {
        rdma_ucm_cmd_hdr header;
        rdma_ucm_create_id body;
      } command{{RDMA_USER_CM_CMD_CREATE_ID, sizeof(command.body), sizeof(response)}, {}};
      command.body.response = reinterpret_cast<std::uintptr_t>(&response);
      if (shim::write_cm_command(channel, &command, sizeof(command)) < 0) {
        error_ = errno;
      }
    });
    next.await_held();
  }
  // The daemon answers. 0 or errno.
  int end() {
    next_.release();
    thread_.join();
    return error_;
  }

 private:
  FakeDaemon& next_;
  int error_ = 0;
  std::thread thread_;
};

// On another thread, so that the test ends, too, if it waits.
template <typename Result>
bool is_done_at_once(std::future<Result>& act) {
  return act.wait_for(std::chrono::seconds{5}) == std::future_status::ready;
}

TEST_F(ReconnectedCmDevice, OtherChannelsDontWaitForTheNextDaemonsAnswer) {
  const int before = channel;
  ASSERT_GE(channel = shim::open_cm_channel(), 0);
  ASSERT_EQ(fcntl(channel, F_SETFL, O_NONBLOCK), 0);
  create_bound_id(3);
  daemon.die();
  FakeDaemon restarted;
  answer(restarted);
  Reconnection reconnection(before, restarted);
  auto got = std::async(std::launch::async, [this] { return removed() != 0 && !get_event(); });
  EXPECT_TRUE(is_done_at_once(got));
  EXPECT_EQ(reconnection.end(), 0);
  EXPECT_TRUE(got.get());
  EXPECT_EQ(shim::close_cm_channel(channel), 0);
  channel = before;
}

TEST_F(ReconnectedCmDevice, AChannelMayBeClosedWhileItIsConnected) {
  const int other = shim::open_cm_channel();
  ASSERT_GE(other, 0);
  daemon.die();
  FakeDaemon restarted;
  Reconnection reconnection(other, restarted);
  auto closed = std::async(std::launch::async, [other] { return shim::close_cm_channel(other); });
  EXPECT_TRUE(is_done_at_once(closed));
  EXPECT_EQ(reconnection.end(), ENODEV);
  EXPECT_EQ(closed.get(), 0);
  EXPECT_EQ(restarted.last_command(), abi::Command::kCmCloseChannel);
}

// Another thread has given the channel a new id since GET_EVENT found nothing.
TEST_F(ReconnectedCmDevice, NobodyWaitsForTheNextDaemonsEventsWhileARemovalIsThere) {
  create_bound_id(3);
  daemon.die();
  FakeDaemon restarted;
  create_id(4, restarted);
  auto waited = std::async(std::launch::async, [this] {
    return shim::wait_at_cm_channel(channel, shim::route_of(channel).serial);
  });
  EXPECT_TRUE(is_done_at_once(waited));
  answer(restarted);
  EXPECT_EQ(waited.get(), 0);
}

// As many channels as one epoll instance inside another may watch (the kernel's limit is 100 paths
// that long from one file) have removals to report when they get new ids.
TEST_F(ReconnectedCmDevice, ManyWatchedChannelsServeNewIds) {
  constexpr int kChannels = 120;
  const int before = channel;
  daemon.separate_channels();
  const UniqueFd outer(epoll_create1(EPOLL_CLOEXEC));
  epoll_event interest{.events = EPOLLIN, .data = {}};
  ASSERT_EQ(epoll_ctl(outer.get(), EPOLL_CTL_ADD, program.get(), &interest), 0);
  std::vector<int> channels;
  for (int i = 0; i < kChannels; ++i) {
    ASSERT_GE(channel = shim::open_cm_channel(), 0);
    set_nonblocking();
    ASSERT_EQ(epoll_ctl(program.get(), EPOLL_CTL_ADD, channel, &interest), 0);
    create_bound_id(static_cast<std::uint32_t>(i));
    channels.push_back(channel);
  }
  daemon.die();
  FakeDaemon restarted;
  restarted.separate_channels();
  for (const int one : channels) {
    channel = one;
    create_id(static_cast<std::uint32_t>(one), restarted);
    EXPECT_TRUE(readable());
  }
  for (const int one : channels) {
    channel = one;
    EXPECT_NE(removed(), 0U);
    answer(restarted);
    EXPECT_FALSE(readable());
    EXPECT_EQ(shim::close_cm_channel(one), 0);
  }
  channel = before;
}

// librdmacm takes handles for ints. A daemon whose ids the program keeps for ever keeps its number.
TEST(CmHandles, ArePositiveAndOfOneConnection) {
  const auto handle_of = [](std::uint64_t generation) {
    return shim::handle_for_program({.generation = generation}, 5);
  };
  std::uint64_t generation = 1'000'000;
  const shim::ChannelLock lock;
  shim::ConnectionObjects* const kept = shim::make_objects(generation);
  for (std::uint32_t i = 0; i < 2 * shim::kConnectionsMax; ++i) {
    generation = shim::next_generation(generation);
    ASSERT_LE(handle_of(generation), static_cast<std::uint32_t>(INT32_MAX));
    ASSERT_NE(handle_of(generation), handle_of(kept->generation));
  }
  shim::disconnect(*kept);
}

TEST(CmHandles, CanBeUsedUp) {
  constexpr std::uint64_t kFirst = 1'000'000;
  const shim::ChannelLock lock;
  std::vector<shim::ConnectionObjects*> made;
  for (std::uint32_t i = 0; i < shim::kConnectionsMax; ++i) {
    made.push_back(shim::make_objects(kFirst + i));
  }
  EXPECT_EQ(shim::next_generation(kFirst), 0U);
  for (shim::ConnectionObjects* const objects : made) {
    shim::disconnect(*objects);
  }
}

}  // namespace
}  // namespace uroce::test
