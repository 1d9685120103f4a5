// Commands that librdmacm writes to its device, and the events that it gets by them.

#include <rdma/rdma_user_cm.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <thread>

#include "tests/unit/shim/cm/cm_device_fixture.h"
#include "tests/unit/shim/fake_daemon.h"
#include "tests/unit/shim/on_cancelled_thread.h"
#include "tests/unit/shim/signal_until_done.h"
#include "verbs_shim/cm/cm_device.h"

namespace uroce::test {
namespace {

TEST_F(CmDevice, AnAnswerLongerThanItsRecordIsRefused) {
  abi::CmCommandReply reply{};
  reply.output_length = abi::kCmOutputMax + 1;
  daemon.announce_to_librdmacm(reply);
  EXPECT_FALSE(get_event());
  EXPECT_EQ(errno, EPROTO);
  EXPECT_EQ(event[0], 0);
}

// It would be lost, and its byte would keep the channel readable.
TEST_F(CmDevice, AThreadThatIsCancelledTakesTheWholeEvent) {
  create_bound_id(0);
  abi::CmCommandReply reply{};
  reply.leaving = 1;
  reply.output_length = sizeof(rdma_ucm_event_resp);
  reply.output[0] = 7;
  daemon.announce_to_librdmacm(reply);
  ASSERT_TRUE(readable());
  EXPECT_TRUE(on_cancelled_thread([this] { EXPECT_TRUE(get_event()); }));
  EXPECT_EQ(event[0], 7);
  EXPECT_FALSE(readable());
}

std::ptrdiff_t open_files() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

TEST_F(CmDevice, ALostConnectionIsClosedWhenAnotherTakesItsPlace) {
  const auto reconnect = [] {
    const FakeDaemon restarted;
    const int fresh = shim::open_cm_channel();
    ASSERT_GE(fresh, 0);
    EXPECT_EQ(shim::close_cm_channel(fresh), 0);
  };
  daemon.die();
  reconnect();
  const std::ptrdiff_t before = open_files();
  reconnect();
  EXPECT_EQ(open_files(), before);
}

// Ids and memberships of a daemon that dies.
class OrphanedCmDevice : public CmDevice {
 protected:
  static constexpr std::uint32_t kId = 5, kMembership = 3, kFresh = 8;
};

TEST_F(OrphanedCmDevice, IdsAndMembershipsCanBeGivenBack) {
  const std::uint32_t id = create_id(kId);
  const std::uint32_t membership = create_membership(id, kMembership);
  fetch(kId, kId);
  fetch(kId, kFresh);  // a connect request
  const std::uint32_t fresh = got_event().id;
  fetch(kId, kId, kMembership + 1);
  daemon.die();
  errno = 0;
  EXPECT_EQ(destroy(RDMA_USER_CM_CMD_LEAVE_MCAST, membership), 1);
  EXPECT_EQ(destroy_id(id), 3);
  EXPECT_EQ(destroy_id(fresh), 0);
  EXPECT_EQ(errno, 0);
  EXPECT_EQ(destroy_id(id), -1) << "it is destroyed";
  EXPECT_EQ(errno, ENODEV);
}

TEST_F(OrphanedCmDevice, CountsAreOfTheIdThatHasTheHandleNow) {
  create_id(kId);
  fetch(kId, kId);
  const std::uint32_t id = create_id(kId);
  daemon.die();
  EXPECT_EQ(destroy_id(id), 0);
}

TEST_F(OrphanedCmDevice, IdsCanBeGivenBackWhenAnotherConnectionTookItsPlace) {
  const std::uint32_t id = create_id(kId);
  fetch(kId, kId);
  daemon.die();
  const FakeDaemon restarted;
  const int fresh = shim::open_cm_channel();
  ASSERT_GE(fresh, 0);
  EXPECT_EQ(destroy_id(id), 1);
  EXPECT_EQ(destroy_id(id + 1), -1) << "there was no such id";
  EXPECT_EQ(shim::close_cm_channel(fresh), 0);
}

TEST_F(CmDevice, AThreadThatWaitsForAnEventCanBeCancelled) {
  create_bound_id(0);
  abi::CmCommandReply none{};
  daemon.announce_to_librdmacm(none);
  EXPECT_FALSE(on_cancelled_thread([this] { get_event(); }));
  EXPECT_TRUE(readable());
}

// A thread that waits for an event under signals, and the result of that call.
class InterruptedCmDevice : public CmDevice {
 protected:
  // Sends signals until the call has returned or `patience` is over; then an event, which ends it.
  // Returns whether the call had returned before the event.
  bool wait_under_signals(int flags, std::chrono::milliseconds patience) {
    struct sigaction action {};
    action.sa_handler = [](int) {};
    action.sa_flags = flags;
    struct sigaction before {};
    EXPECT_EQ(sigaction(SIGUSR1, &action, &before), 0);
    std::atomic<bool> done{false};
    std::thread waiter([&] {
      got = get_event();
      error = errno;
      done.store(true);
    });
    const bool returned = signal_until_done(waiter, done, patience);
    abi::CmCommandReply reply{};
    reply.output_length = sizeof(rdma_ucm_event_resp);
    daemon.announce_to_librdmacm(reply);
    waiter.join();
    EXPECT_EQ(sigaction(SIGUSR1, &before, nullptr), 0);
    return returned;
  }

  bool got = false;
  int error = 0;
};

TEST_F(InterruptedCmDevice, ReturnsToTheProgram) {
  EXPECT_TRUE(wait_under_signals(0, std::chrono::seconds{10}));
  EXPECT_FALSE(got);
  EXPECT_EQ(error, EINTR);
}

TEST_F(InterruptedCmDevice, GoesOnAfterAHandlerThatRestartsCalls) {
  EXPECT_FALSE(wait_under_signals(SA_RESTART, std::chrono::milliseconds{100}));
  EXPECT_TRUE(got);
}

// rping's thread of events asks for the next one while the main thread closes the channel.
TEST_F(InterruptedCmDevice, WaitsAtAChannelThatIsBeingClosed) {
  daemon.hold(abi::Command::kCmCloseChannel);
  std::thread closer([this] { EXPECT_EQ(shim::close_cm_channel(channel), 0); });
  daemon.await_held();
  EXPECT_TRUE(shim::is_cm_channel(channel)) << "its commands go to the program's epoll instance";
  EXPECT_TRUE(wait_under_signals(0, std::chrono::seconds{10}));
  EXPECT_FALSE(got);
  EXPECT_EQ(error, EINTR);
  daemon.release();
  closer.join();
  EXPECT_FALSE(shim::is_cm_channel(channel));
}

}  // namespace
}  // namespace uroce::test
