// A program that closes all descriptors that it doesn't know, and gets their numbers again for its
// own connections: the shim doesn't touch those, and the device is lost as if the daemon had died.

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "tests/unit/shim/verbs_fixture.h"
#include "tests/unit/taken_number.h"
#include "verbs_shim/cm/cm_device.h"
#include "verbs_shim/objects/objects.h"

namespace uroce::test {
namespace {

class ClosedDescriptors : public VerbsFixture {
 protected:
  // Checks the numbers after everything is closed.
  void TearDown() override {
    VerbsFixture::TearDown();
    taken_.clear();
  }
  void take(int number) { taken_.push_back(std::make_unique<TakenNumber>(number)); }
  [[nodiscard]] int connection() const { return shim::of(context)->client.descriptor(); }
  [[nodiscard]] int wake() const { return shim::of(context)->wake[0].get(); }
  int post() {
    ibv_send_wr wr{};
    wr.wr_id = 5;
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp, &wr, &bad);
  }
  // Polls until the queue reports the loss; the first completion is in `first`.
  void poll_to_the_end(ibv_wc& first) {
    ibv_wc wc{};
    for (int found = 0, all = 0; (found = ibv_poll_cq(cq, 1, &wc)) >= 0; all += found) {
      if (found == 1 && all == 0) {
        first = wc;
      }
    }
  }

 private:
  std::vector<std::unique_ptr<TakenNumber>> taken_;
};

TEST_F(ClosedDescriptors, CommandsFail) {
  take(connection());
  ibv_device_attr attributes{};
  EXPECT_EQ(ibv_query_device(context, &attributes), ENODEV);
  EXPECT_EQ(ibv_alloc_pd(context), nullptr);
  EXPECT_EQ(errno, ENODEV);
}

TEST_F(ClosedDescriptors, PollingEnds) {
  take(connection());
  ibv_wc first{};
  poll_to_the_end(first);
  EXPECT_EQ(post(), EIO);
}

TEST_F(ClosedDescriptors, ASleepingWorkerIsntWoken) {
  take(connection());
  take(wake());
  daemon.status().asleep = 1;
  EXPECT_EQ(post(), 0) << "noticed too late to refuse";
  ibv_wc first{};
  poll_to_the_end(first);
  EXPECT_EQ(first.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(first.wr_id, 5U);
  EXPECT_EQ(daemon.wakes(), 0U);
}

// Eventfds share one inode.
TEST_F(ClosedDescriptors, AnEventfdOfTheProgramIsntWritten) {
  const int number = wake();
  const UniqueFd own(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  ASSERT_EQ(::dup3(own.get(), number, O_CLOEXEC), number);
  take(connection());
  daemon.status().asleep = 1;
  EXPECT_EQ(post(), 0);
  std::uint64_t count = 0;
  EXPECT_EQ(::read(own.get(), &count, sizeof(count)), -1);
}

// closefrom() may begin above the number of the connection.
TEST_F(ClosedDescriptors, WithoutTheWorkersEventfdTheDeviceIsLost) {
  take(wake());
  daemon.status().asleep = 1;
  EXPECT_EQ(post(), 0);
  EXPECT_FALSE(shim::of(context)->client.alive());
  char byte = 0;
  EXPECT_EQ(::recv(connection(), &byte, 1, MSG_DONTWAIT), 0) << "the daemon isn't told";
}

TEST_F(ClosedDescriptors, AnAwakeWorkerNeedsNoEventfd) {
  take(wake());
  EXPECT_EQ(post(), 0);
  EXPECT_TRUE(shim::of(context)->client.alive());
}

TEST_F(ClosedDescriptors, EventsEnd) {
  take(channel->fd);
  daemon.announce(abi::CompletionEvent{.cq_cookie = cq_cookie});
  ibv_cq* told = nullptr;
  void* told_context = nullptr;
  EXPECT_EQ(ibv_get_cq_event(channel, &told, &told_context), -1);
  EXPECT_EQ(errno, ENODEV);
  ibv_pd* const more = ibv_alloc_pd(context);
  ASSERT_NE(more, nullptr) << "only one channel is lost, not the device";
  EXPECT_EQ(ibv_dealloc_pd(more), 0);

  take(context->async_fd);
  ibv_async_event event{};
  ASSERT_EQ(ibv_get_async_event(context, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_DEVICE_FATAL);
}

TEST_F(ClosedDescriptors, NoneIsClosedWithTheDevice) {
  take(connection());
  take(wake());
  take(channel->fd);
  take(context->async_fd);
  take(context->cmd_fd);
}

// A record that the system refuses wasn't sent, not even in part.
class UnsentRequests : public ClosedDescriptors {
 protected:
  // Sends so many bytes and these descriptors. 0 or an errno value.
  int send(std::size_t length, std::span<const int> passed) {
    std::vector<std::byte> record(length);
    abi::HandleReply reply{};
    return shim::of(context)->client.exchange(
        {.call_name = "a test",
         .command = abi::Command::kOpenXrcd,
         .header = *reinterpret_cast<abi::RequestHeader*>(record.data()),
         .length = length,
         .passed = passed},
        {.header = reply.header, .size = sizeof(reply)});
  }
};

TEST_F(UnsentRequests, FailWithTheSystemsErrorAndLeaveTheDevice) {
  const int closed = ::dup(connection());
  ::close(closed);
  EXPECT_EQ(send(sizeof(abi::HandleRequest), std::span(&closed, 1)), EBADF);
  EXPECT_EQ(errno, EBADF);
  constexpr int kSmallest = 0;
  constexpr std::size_t kTooLong = 32'768;
  ASSERT_EQ(::setsockopt(connection(), SOL_SOCKET, SO_SNDBUF, &kSmallest, sizeof(kSmallest)), 0);
  EXPECT_EQ(send(kTooLong, {}), EMSGSIZE);
  EXPECT_TRUE(shim::of(context)->client.alive());
  ibv_pd* const more = ibv_alloc_pd(context);
  ASSERT_NE(more, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(more), 0);
}

TEST_F(UnsentRequests, LoseTheDeviceOnceTheDaemonIsGone) {
  daemon.die();
  EXPECT_EQ(send(sizeof(abi::HandleRequest), {}), ENODEV);
  EXPECT_FALSE(shim::of(context)->client.alive());
}

// The number of the arena's descriptor, found by its name.
int arena_number() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code ignored;
    if (std::filesystem::read_symlink(entry, ignored).string().starts_with("/memfd:uroce-memory")) {
      return std::atoi(entry.path().filename().c_str());
    }
  }
  return -1;
}

// 0, or the number of the check that failed.
int register_without_arena() {
  FakeDaemon daemon;
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  ibv_context* const first = ibv_open_device(list[0]);
  ibv_context* const second = ibv_open_device(list[0]);
  constexpr std::size_t kBytes = 64 << 10;
  void* const memory =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (ibv_reg_mr(ibv_alloc_pd(first), memory, kBytes, IBV_ACCESS_LOCAL_WRITE) == nullptr) {
    return 1;
  }
  const int arena = arena_number();
  if (arena < 0) {
    return 2;
  }
  const TakenNumber taken(arena);
  if (ibv_reg_mr(ibv_alloc_pd(second), memory, kBytes, IBV_ACCESS_LOCAL_WRITE) != nullptr ||
      errno != EBADF) {
    return 3;
  }
  return ibv_alloc_pd(second) != nullptr ? 0 : 4;
}

// In processes of their own, because there is one arena per process, and one warning to the user.
class ClosedDescriptorsDeathTest : public testing::Test {
 protected:
  void SetUp() override { testing::GTEST_FLAG(death_test_style) = "threadsafe"; }
};

TEST_F(ClosedDescriptorsDeathTest, AFileWithTheArenasNumberIsntPassedToTheDaemon) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer leaves no room for the shim's own thread, without which memory "
                  "isn't moved into an arena";
#endif
  EXPECT_EXIT(_exit(register_without_arena()), testing::ExitedWithCode(0), "");
}

int lose_the_device() {
  FakeDaemon daemon;
  int count = 0;
  ibv_context* const context = ibv_open_device(ibv_get_device_list(&count)[0]);
  const TakenNumber taken(shim::of(context)->client.descriptor());
  ibv_device_attr attributes{};
  return ibv_query_device(context, &attributes) == ENODEV &&
                 ibv_query_device(context, &attributes) == ENODEV
             ? 0
             : 1;
}

TEST_F(ClosedDescriptorsDeathTest, TheUserIsWarned) {
  EXPECT_EXIT(_exit(lose_the_device()), testing::ExitedWithCode(0),
              "^uroce: the program has closed descriptors that the device needs[^\n]*\n$");
}

// librdmacm's descriptors are the connection of the process and its channels.
int lose_a_cm_channel() {
  FakeDaemon daemon;
  const int channel = shim::open_cm_channel();
  if (channel < 0 || !shim::is_cm_channel(channel)) {
    return 1;
  }
  const TakenNumber taken(channel);
  return shim::is_cm_channel(channel) ? 2 : 0;
}

TEST_F(ClosedDescriptorsDeathTest, AChannelOfLibrdmacmIsLost) {
  EXPECT_EXIT(_exit(lose_a_cm_channel()), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace uroce::test
