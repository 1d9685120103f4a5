// Channels that are connected with the next daemon.

#include <fcntl.h>
#include <sys/epoll.h>

#include <cstdint>
#include <vector>

#include "base/unique_fd.h"
#include "tests/unit/shim/cm/removal_fixture.h"
#include "tests/unit/shim/fake_daemon.h"
#include "verbs_shim/cm/cm_device.h"

namespace uroce::test {
namespace {

using ReconnectedCmDevice = RemovalCmDevice;

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
    EXPECT_NE(removed(), 0U);
    answer(restarted);
    EXPECT_FALSE(readable());
    EXPECT_EQ(shim::close_cm_channel(one), 0);
  }
  channel = before;
}

}  // namespace
}  // namespace uroce::test
