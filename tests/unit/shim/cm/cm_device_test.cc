// Commands that librdmacm writes to its device, and the events that it gets by them.

#include <poll.h>
#include <rdma/rdma_user_cm.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <thread>

#include "tests/unit/shim/fake_daemon.h"
#include "tests/unit/shim/on_cancelled_thread.h"
#include "tests/unit/shim/signal_until_done.h"
#include "verbs_shim/cm/cm_device.h"

namespace uroce::test {
namespace {

class CmDevice : public testing::Test {
 protected:
  void SetUp() override { ASSERT_GE(channel = shim::open_cm_channel(), 0); }
  void TearDown() override { EXPECT_EQ(shim::close_cm_channel(channel), 0); }

  // The event is written to `event`. True, or false with errno.
  bool get_event() {
    struct {
      rdma_ucm_cmd_hdr header;
      rdma_ucm_get_event body;
    } command{};
    command.header = {.cmd = RDMA_USER_CM_CMD_GET_EVENT,
                      .in = sizeof(command.body),
                      .out = static_cast<std::uint16_t>(event.size())};
    command.body.response = reinterpret_cast<std::uintptr_t>(event.data());
    return shim::write_cm_command(channel, &command, sizeof(command)) == sizeof(command);
  }
  [[nodiscard]] bool readable() const {
    pollfd one{.fd = channel, .events = POLLIN, .revents = 0};
    return poll(&one, 1, 0) == 1;
  }

  FakeDaemon daemon;
  int channel = -1;
  std::array<std::uint8_t, 4 * abi::kCmOutputMax> event{};
};

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

  // A command with a response is written. True, or false with errno.
  template <typename Body, typename Response>
  bool command(std::uint32_t number, Body body, Response* response) {
    struct {
      rdma_ucm_cmd_hdr header;
      Body body;
    } command{{number, sizeof(Body), sizeof(Response)}, body};
    command.body.response = reinterpret_cast<std::uintptr_t>(response);
    return shim::write_cm_command(channel, &command, sizeof(command)) == sizeof(command);
  }
  template <typename Body>
  void create(std::uint32_t number, std::uint32_t handle) {
    abi::CmCommandReply reply{};
    reply.leaving = 1;
    reply.output_length = sizeof(rdma_ucm_create_id_resp);
    std::memcpy(reply.output, &handle, sizeof(handle));
    daemon.announce_to_librdmacm(reply);
    rdma_ucm_create_id_resp response{};
    EXPECT_TRUE(command(number, Body{}, &response));
    EXPECT_EQ(response.id, handle);
  }
  void fetch(std::uint32_t counted, std::uint32_t named, std::uint32_t membership = 0) {
    abi::CmCommandReply reply{};
    reply.leaving = 1;
    reply.event_id = counted + 1;
    reply.event_membership = membership;
    reply.output_length = sizeof(rdma_ucm_event_resp);
    rdma_ucm_event_resp record{};
    record.id = named;
    std::memcpy(reply.output, &record, sizeof(record));
    daemon.announce_to_librdmacm(reply);
    EXPECT_TRUE(get_event());
  }
  // The number of events that the program is to have acknowledged. -1 and errno: it fails.
  int destroy(std::uint32_t number, std::uint32_t handle) {
    rdma_ucm_destroy_id body{};
    body.id = handle;
    rdma_ucm_destroy_id_resp response{};
    return command(number, body, &response) ? static_cast<int>(response.events_reported) : -1;
  }
};

TEST_F(OrphanedCmDevice, IdsAndMembershipsCanBeGivenBack) {
  create<rdma_ucm_create_id>(RDMA_USER_CM_CMD_CREATE_ID, kId);
  create<rdma_ucm_join_mcast>(RDMA_USER_CM_CMD_JOIN_MCAST, kMembership);
  fetch(kId, kId);
  fetch(kId, kFresh);  // a connect request
  fetch(kId, kId, kMembership + 1);
  daemon.die();
  errno = 0;
  EXPECT_EQ(destroy(RDMA_USER_CM_CMD_LEAVE_MCAST, kMembership), 1);
  EXPECT_EQ(destroy(RDMA_USER_CM_CMD_DESTROY_ID, kId), 3);
  EXPECT_EQ(destroy(RDMA_USER_CM_CMD_DESTROY_ID, kFresh), 0);
  EXPECT_EQ(errno, 0);
  EXPECT_FALSE(get_event());
  EXPECT_EQ(errno, ENODEV);
}

TEST_F(OrphanedCmDevice, CountsAreOfTheIdThatHasTheHandleNow) {
  create<rdma_ucm_create_id>(RDMA_USER_CM_CMD_CREATE_ID, kId);
  fetch(kId, kId);
  create<rdma_ucm_create_id>(RDMA_USER_CM_CMD_CREATE_ID, kId);
  daemon.die();
  EXPECT_EQ(destroy(RDMA_USER_CM_CMD_DESTROY_ID, kId), 0);
}

TEST_F(OrphanedCmDevice, IdsCanBeGivenBackWhenAnotherConnectionTookItsPlace) {
  create<rdma_ucm_create_id>(RDMA_USER_CM_CMD_CREATE_ID, kId);
  fetch(kId, kId);
  daemon.die();
  const FakeDaemon restarted;
  const int fresh = shim::open_cm_channel();
  ASSERT_GE(fresh, 0);
  EXPECT_EQ(destroy(RDMA_USER_CM_CMD_DESTROY_ID, kId), 1);
  EXPECT_EQ(destroy(RDMA_USER_CM_CMD_DESTROY_ID, kFresh), -1) << "there was no such id";
  EXPECT_EQ(shim::close_cm_channel(fresh), 0);
}

TEST_F(CmDevice, AThreadThatWaitsForAnEventCanBeCancelled) {
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

}  // namespace
}  // namespace uroce::test
