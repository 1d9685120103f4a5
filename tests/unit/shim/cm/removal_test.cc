// What a program sees at an event channel when the daemon dies, and when there is one again: a
// removal event for each id that was in use, and the same descriptor serves new ids.

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <set>
#include <thread>

#include "tests/unit/shim/cm/removal_fixture.h"
#include "tests/unit/shim/fake_daemon.h"
#include "tests/unit/shim/on_cancelled_thread.h"
#include "tests/unit/shim/signal_until_done.h"
#include "verbs_shim/cm/cm_device.h"

namespace uroce::test {
namespace {

TEST_F(RemovalCmDevice, EachEventIsAnEdgeAtTheProgramsEpoll) {
  create_bound_id(3);
  epoll_event interest{.events = EPOLLIN | EPOLLET, .data = {}};
  ASSERT_EQ(epoll_ctl(program.get(), EPOLL_CTL_MOD, channel, &interest), 0);
  epoll_event happened{};
  for (int events = 0; events < 3; ++events) {
    EXPECT_EQ(epoll_wait(program.get(), &happened, 1, 0), 0) << events;
    answer(daemon);
    EXPECT_EQ(epoll_wait(program.get(), &happened, 1, 0), 1) << events;
  }
  daemon.die();
  EXPECT_EQ(epoll_wait(program.get(), &happened, 1, 0), 1);
}

TEST_F(RemovalCmDevice, IsReportedOnceForEachIdInUse) {
  set_nonblocking();
  const std::uint32_t first = create_bound_id(3);
  const std::uint32_t second = create_bound_id(7);
  create_id(4);  // without an address, it has no device
  fetch(3, 3);
  EXPECT_FALSE(has_events());
  daemon.die();
  EXPECT_TRUE(has_events());
  EXPECT_EQ((std::set{removed(), removed()}), (std::set{kUid + 3, kUid + 7}));
  EXPECT_TRUE(is_empty());
  EXPECT_EQ(destroy_id(first), 2) << "it waits until the removal is acknowledged";
  EXPECT_EQ(destroy_id(second), 1);
  EXPECT_TRUE(is_empty());
}

TEST_F(RemovalCmDevice, ChannelsWithoutIdsInUseAreNotReadable) {
  set_nonblocking();
  create_id(4);
  destroy_id(create_bound_id(3));
  daemon.die();
  EXPECT_FALSE(has_events());
  EXPECT_TRUE(is_empty());
}

TEST_F(RemovalCmDevice, IsNotReportedOfIdsThatCouldNotBeBound) {
  set_nonblocking();
  const std::uint32_t never = create_id(3);
  const std::uint32_t before = create_bound_id(4);
  daemon.refuse(abi::Command::kCmCommand, EADDRINUSE);
  EXPECT_FALSE(bind(never));
  EXPECT_FALSE(bind(before));
  daemon.die();
  EXPECT_EQ(removed(), kUid + 4);
  EXPECT_TRUE(is_empty());
}

TEST_F(RemovalCmDevice, IsNotReportedOfIdsThatAreDestroyed) {
  set_nonblocking();
  const std::uint32_t destroyed = create_bound_id(3);
  create_bound_id(7);
  daemon.die();
  EXPECT_EQ(destroy_id(destroyed), 0);
  EXPECT_EQ(removed(), kUid + 7);
  EXPECT_TRUE(is_empty());
}

TEST_F(RemovalCmDevice, DestroyingTheLastIdTakesTheEventAway) {
  set_nonblocking();
  const std::uint32_t id = create_bound_id(3);
  daemon.die();
  EXPECT_TRUE(has_events());
  EXPECT_EQ(bind(id), false);
  EXPECT_EQ(errno, ENODEV);
  EXPECT_EQ(destroy_id(id), 0);
  EXPECT_TRUE(is_empty());
}

// Of a request that the program hasn't accepted it has no handle in librdmacm, as in Linux.
TEST_F(RemovalCmDevice, IsReportedOfAcceptedRequests) {
  set_nonblocking();
  create_bound_id(3);
  fetch(3, 8);
  const std::uint32_t accepted = got_event().id;
  fetch(3, 9);
  const std::uint32_t waiting = got_event().id;
  answer(daemon);
  rdma_ucm_accept body{};
  body.uid = kUid;
  body.id = accepted;
  ASSERT_TRUE(command_without_response(RDMA_USER_CM_CMD_ACCEPT, body));
  daemon.die();
  EXPECT_EQ((std::set{removed(), removed()}), (std::set{kUid + 3, kUid}));
  EXPECT_TRUE(is_empty());
  EXPECT_EQ(destroy_id(accepted), 1);
  EXPECT_EQ(destroy_id(waiting), 0);
}

TEST_F(RemovalCmDevice, IsReportedAtTheChannelToWhichTheIdWasMoved) {
  const int before = channel;
  const std::uint32_t id = create_bound_id(3);
  ASSERT_GE(channel = shim::open_cm_channel(), 0);
  set_nonblocking();
  answer(daemon, &kNoEvents, sizeof(kNoEvents));
  ASSERT_TRUE(move_here(id, before));
  daemon.die();
  EXPECT_FALSE(is_readable(before));
  EXPECT_TRUE(readable());
  EXPECT_EQ(removed(), kUid + 3);
  EXPECT_EQ(destroy_id(id), 1);
  EXPECT_EQ(shim::close_cm_channel(before), 0);
}

TEST_F(RemovalCmDevice, AChannelServesIdsThatAreMovedThere) {
  const int before = channel;
  const std::uint32_t lost = create_bound_id(3);
  daemon.die();
  FakeDaemon restarted;
  const int other = channel = shim::open_cm_channel();
  ASSERT_GE(other, 0);
  const std::uint32_t id = create_bound_id(3, restarted);
  channel = before;
  set_nonblocking();
  EXPECT_FALSE(move_here(lost, before));
  EXPECT_EQ(errno, ENODEV);
  answer(restarted, &kNoEvents, sizeof(kNoEvents));
  EXPECT_TRUE(move_here(id, other));
  EXPECT_EQ(removed(), kUid + 3);
  EXPECT_FALSE(has_events());
  EXPECT_EQ(shim::close_cm_channel(other), 0);
  restarted.die();
  EXPECT_EQ(removed(), kUid + 3);
  EXPECT_TRUE(is_empty());
  EXPECT_EQ(destroy_id(id), 1);
  EXPECT_EQ(destroy_id(lost), 1);
}

TEST_F(RemovalCmDevice, TheSameDescriptorServesNewIds) {
  set_nonblocking();
  const std::uint32_t lost = create_bound_id(3);
  daemon.die();
  EXPECT_EQ(removed(), kUid + 3);
  rdma_ucm_create_id_resp response{};
  EXPECT_FALSE(command(RDMA_USER_CM_CMD_CREATE_ID, rdma_ucm_create_id{}, &response));
  EXPECT_EQ(errno, ENODEV);
  FakeDaemon restarted;
  const std::uint32_t fresh = create_bound_id(3, restarted);
  EXPECT_NE(fresh, lost) << "both exist";
  EXPECT_FALSE(has_events());
  rdma_ucm_event_resp record{};
  record.id = 3;
  answer(restarted, &record, sizeof(record), 3 + 1);
  EXPECT_TRUE(has_events());
  EXPECT_TRUE(get_event());
  EXPECT_EQ(got_event().id, fresh);
  EXPECT_FALSE(has_events());
  EXPECT_FALSE(bind(lost));
  EXPECT_EQ(errno, ENODEV);
  EXPECT_EQ(destroy_id(lost), 1);
  EXPECT_EQ(destroy_id(lost), -1);
  restarted.die();
  EXPECT_EQ(removed(), kUid + 3) << "of the fresh one";
  EXPECT_TRUE(is_empty());
  EXPECT_EQ(destroy_id(fresh), 2);
}

TEST_F(RemovalCmDevice, IsReportedWhenTheChannelHasNewIdsAlready) {
  set_nonblocking();
  create_bound_id(3);
  const std::uint32_t second = create_bound_id(4);
  create_bound_id(5);
  daemon.die();
  EXPECT_NE(removed(), 0U);
  FakeDaemon restarted;
  create_id(3, restarted);
  EXPECT_TRUE(has_events());
  destroy_id(second);
  EXPECT_TRUE(has_events());
  EXPECT_NE(removed(), 0U);
  answer(restarted);
  EXPECT_TRUE(is_empty());
}

TEST_F(RemovalCmDevice, AWaitingThreadGetsItAndThenTheEventsOfNewIds) {
  create_bound_id(3);
  abi::CmCommandReply none{};
  std::atomic<int> got{0};
  daemon.announce_to_librdmacm(none);
  std::thread waiter([&] {
    EXPECT_EQ(removed(), kUid + 3);
    got = 1;
    EXPECT_TRUE(get_event());  // waits without a daemon
    EXPECT_EQ(got_event().uid, 77U);
    got = 2;
  });
  daemon.die();
  while (got == 0) {
    std::this_thread::yield();
  }
  FakeDaemon restarted;
  create_bound_id(3, restarted);
  EXPECT_EQ(got, 1);
  rdma_ucm_event_resp record{};
  record.uid = 77;
  answer(restarted, &record, sizeof(record), 3 + 1);
  waiter.join();
  EXPECT_EQ(got, 2);
}

TEST_F(RemovalCmDevice, AThreadThatWaitsWithoutADaemonCanBeCancelledAndInterrupted) {
  daemon.die();
  EXPECT_FALSE(on_cancelled_thread([this] { get_event(); }));
  struct sigaction action {};
  action.sa_handler = [](int) {};
  for (const int flags : {SA_RESTART, 0}) {
    action.sa_flags = flags;
    ASSERT_EQ(sigaction(SIGUSR1, &action, nullptr), 0);
    std::atomic<bool> done{false};
    std::thread waiter([&] {
      EXPECT_FALSE(get_event());
      EXPECT_EQ(errno, EINTR);
      done = true;
    });
    if (flags == SA_RESTART) {
      EXPECT_FALSE(signal_until_done(waiter, done, std::chrono::milliseconds{100}));
      action.sa_flags = 0;
      ASSERT_EQ(sigaction(SIGUSR1, &action, nullptr), 0);
    }
    EXPECT_TRUE(signal_until_done(waiter, done, std::chrono::seconds{10}));
    waiter.join();
  }
}

TEST_F(RemovalCmDevice, AForksChildTakesNothingOfItsParents) {
  set_nonblocking();
  create_bound_id(3);
  create_bound_id(4);
  daemon.die();
  EXPECT_NE(removed(), 0U);
  const FakeDaemon restarted;
  const pid_t child = fork();
  if (child == 0) {
    rdma_ucm_create_id_resp response{};
    const bool works = get_event() || errno != ENODEV ||
                       command(RDMA_USER_CM_CMD_CREATE_ID, rdma_ucm_create_id{}, &response) ||
                       errno != ENODEV || shim::close_cm_channel(channel) != 0;
    _exit(works ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(has_events());
  EXPECT_NE(removed(), 0U);
  EXPECT_TRUE(is_empty());
}

// The child has the dead daemon's socket open, too.
TEST_F(RemovalCmDevice, AForksChildKeepsNothingReadable) {
  set_nonblocking();
  create_bound_id(3);
  daemon.die();
  const pid_t child = fork();
  if (child == 0) {
    for (;;) {
      pause();
    }
  }
  FakeDaemon restarted;
  create_id(3, restarted);
  EXPECT_EQ(removed(), kUid + 3);
  EXPECT_FALSE(has_events());
  kill(child, SIGKILL);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

// Of a daemon that dies again and again one thread gets every removal, while others make ids and
// destroy them.
TEST_F(RemovalCmDevice, IdsMayBeDestroyedMeanwhile) {
  constexpr int kRounds = 50;
  set_nonblocking();
  daemon.die();
  for (int round = 0; round < kRounds; ++round) {
    FakeDaemon next;
    std::set<std::uint32_t> ids;
    for (std::uint32_t handle = 0; handle < 8; ++handle) {
      ids.insert(create_bound_id(handle, next));
    }
    ASSERT_EQ(ids.size(), 8U);
    next.die();
    std::atomic<int> removals{0};
    std::thread fetcher([&] {
      while (removed() != 0) {
        ++removals;
      }
    });
    int counted = 0;
    for (const std::uint32_t id : ids) {
      counted += destroy_id(id);
    }
    fetcher.join();
    EXPECT_EQ(counted, removals);
    EXPECT_TRUE(is_empty());
  }
}

}  // namespace
}  // namespace uroce::test
