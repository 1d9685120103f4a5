// Threads that wait for events of a channel that is destroyed, or of a device that is closed: as in
// Linux, they wait until a signal arrives, and never read events of others.

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "tests/unit/shim/verbs_fixture.h"
#include "tests/unit/shim_memory/asan.h"
#include "verbs_shim/objects/event_queue.h"

namespace uroce::test {
namespace {

bool is_open(int descriptor) { return fcntl(descriptor, F_GETFD) >= 0; }

// A thread that waits in a verb.
class Waiter {
 public:
  explicit Waiter(std::function<void()> verb) : verb_(std::move(verb)) {
    EXPECT_EQ(pthread_create(&thread_, nullptr, work, this), 0);
  }
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  // Waits until the thread is in that system call. False: it returned from the verb instead.
  [[nodiscard]] bool comes_to(long call) const {
    const std::string wanted = std::to_string(call) + " ";
    for (std::string now; now != wanted; std::this_thread::yield()) {
      if (returned_.load()) {
        return false;
      }
      const std::string path = "/proc/self/task/" + std::to_string(id_.load()) + "/syscall";
      std::FILE* const file = std::fopen(path.c_str(), "re");
      char text[32] = {};
      if (file != nullptr && std::fgets(text, sizeof(text), file) != nullptr) {
        now = std::string(text).substr(0, wanted.size());
      }
      if (file != nullptr) {
        std::fclose(file);
      }
    }
    return true;
  }
  void cancel() const { pthread_cancel(thread_); }
  // By a signal whose handler has no SA_RESTART.
  void interrupt() const {
    struct sigaction action = {};
    action.sa_handler = [](int /*signal*/) {};
    EXPECT_EQ(sigaction(SIGUSR1, &action, nullptr), 0);
    EXPECT_EQ(pthread_kill(thread_, SIGUSR1), 0);
  }
  // Whether it returned from the verb. REQUIRES: it will, or was cancelled.
  [[nodiscard]] bool join() const {
    void* result = nullptr;
    pthread_join(thread_, &result);
    return result != PTHREAD_CANCELED;
  }

 private:
  static void* work(void* argument) {
    auto& mine = *static_cast<Waiter*>(argument);
    mine.id_.store(gettid());
    mine.verb_();
    mine.returned_.store(true);
    return nullptr;
  }

  std::function<void()> verb_;
  std::atomic<pid_t> id_{0};
  std::atomic<bool> returned_{false};
  pthread_t thread_{};
};

class LeftBehind : public VerbsFixture {
 protected:
  static std::function<void()> event_of(ibv_comp_channel* awaited) {
    return [awaited] {
      ibv_cq* told = nullptr;
      void* told_context = nullptr;
      if (ibv_get_cq_event(awaited, &told, &told_context) == 0) {
        ibv_ack_cq_events(told, 1);
      }
    };
  }
  static std::function<void()> event_of(ibv_context* awaited) {
    return [awaited] {
      ibv_async_event event{};
      if (ibv_get_async_event(awaited, &event) == 0) {
        ibv_ack_async_event(&event);
      }
    };
  }
};

TEST_F(LeftBehind, ADestroyedChannelsThreadKeepsWaiting) {
  ibv_comp_channel* const other = ibv_create_comp_channel(context);
  ASSERT_NE(other, nullptr);
  const int descriptor = other->fd;
  Waiter waiter(event_of(other));
  ASSERT_TRUE(waiter.comes_to(SYS_recvfrom));
  EXPECT_EQ(ibv_destroy_comp_channel(other), 0);
  EXPECT_TRUE(is_open(descriptor)) << "the program's next file would get the number";
  daemon.announce(abi::CompletionEvent{.cq_cookie = cq_cookie});  // both channels are one socket
  EXPECT_TRUE(waiter.comes_to(SYS_futex));
  EXPECT_FALSE(is_open(descriptor)) << "it isn't needed any more";
  waiter.interrupt();
  EXPECT_TRUE(waiter.join());
}

TEST_F(LeftBehind, AClosedDevicesThreadKeepsWaiting) {
  ibv_device* const device = context->device;
  ibv_context* const other = ibv_open_device(device);
  ASSERT_NE(other, nullptr);
  const int descriptor = other->async_fd;
  Waiter waiter(event_of(other));
  ASSERT_TRUE(waiter.comes_to(SYS_recvfrom));
  EXPECT_EQ(ibv_close_device(other), 0);
  EXPECT_TRUE(is_open(descriptor)) << "the program's next file would get the number";
  daemon.announce(
      abi::AsyncEventRecord{.event = IBV_EVENT_QP_FATAL, .handle = 0, .cookie = qp_cookie});
  EXPECT_TRUE(waiter.comes_to(SYS_futex));
  EXPECT_FALSE(is_open(descriptor)) << "it isn't needed any more";
  waiter.interrupt();
  EXPECT_TRUE(waiter.join());
}

TEST_F(LeftBehind, AClosedDevicesChannelsThreadKeepsWaiting) {
  ibv_context* const other = ibv_open_device(context->device);
  ASSERT_NE(other, nullptr);
  ibv_comp_channel* const left = ibv_create_comp_channel(other);
  ibv_comp_channel* const later = ibv_create_comp_channel(other);
  ASSERT_NE(left, nullptr);
  ASSERT_NE(later, nullptr);
  ibv_comp_channel* const destroyed = ibv_create_comp_channel(other);
  EXPECT_EQ(ibv_destroy_comp_channel(destroyed), 0);
  Waiter waiter(event_of(left));
  ASSERT_TRUE(waiter.comes_to(SYS_recvfrom));
  EXPECT_EQ(ibv_close_device(other), 0);
  daemon.announce(abi::CompletionEvent{.cq_cookie = cq_cookie});
  EXPECT_TRUE(waiter.comes_to(SYS_futex));
  waiter.interrupt();
  EXPECT_TRUE(waiter.join());
  ibv_cq* told = nullptr;
  void* told_context = nullptr;
  EXPECT_EQ(ibv_get_cq_event(later, &told, &told_context), -1);
  EXPECT_EQ(errno, ENODEV);
  EXPECT_EQ(ibv_destroy_comp_channel(later), 0) << "some programs do so";
  EXPECT_EQ(ibv_destroy_comp_channel(left), 0);
}

// poll() has reported an event to the thread, and it calls while the channel is being destroyed.
TEST_F(LeftBehind, AThreadThatCallsWhileTheQueueIsClosedKeepsWaiting) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
  auto queue = std::make_unique<shim::EventQueue>(sizeof(abi::CompletionEvent));
  queue->keep(UniqueFd(ends[0]));
  shim::EventQueue* const awaited = queue.get();
  std::atomic<ssize_t> result{0};
  std::atomic<int> error{0};
  queue->start_closing();
  Waiter waiter([&] {
    abi::CompletionEvent event{};
    result = awaited->next({}, &event);
    error = errno;
  });
  ASSERT_TRUE(waiter.comes_to(SYS_futex));  // for the lock
  shim::EventQueue::finish_closing(std::move(queue));
  while (is_open(ends[0])) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(waiter.comes_to(SYS_futex));
  waiter.interrupt();
  EXPECT_TRUE(waiter.join());
  EXPECT_EQ(result.load(), -1);
  EXPECT_EQ(error.load(), EINTR);
  close(ends[1]);
}

// The daemon may refuse; then the channel stays, and the thread that waits there goes on.
TEST_F(LeftBehind, AChannelWhoseDestructionFailsKeepsItsThread) {
  ibv_comp_channel* const other = ibv_create_comp_channel(context);
  ASSERT_NE(other, nullptr);
  Waiter waiter(event_of(other));
  ASSERT_TRUE(waiter.comes_to(SYS_recvfrom));
  daemon.refuse(abi::Command::kDestroyChannel, EBUSY);
  EXPECT_EQ(ibv_destroy_comp_channel(other), EBUSY);
  daemon.announce(abi::CompletionEvent{.cq_cookie = cq_cookie});
  EXPECT_TRUE(waiter.join());
  daemon.refuse(abi::Command::kDestroyChannel, 0);
  EXPECT_EQ(ibv_destroy_comp_channel(other), 0);
}

// Nothing is kept for a thread that has ended.
TEST_F(LeftBehind, ACancelledThreadKeepsNothing) {
  if (has_asan_malloc()) {
    GTEST_SKIP() << "AddressSanitizer takes what a cancelled thread's calls leave on its stack for "
                    "an error";
  }
  ibv_comp_channel* const other = ibv_create_comp_channel(context);
  ASSERT_NE(other, nullptr);
  const int descriptor = other->fd;
  Waiter waiter(event_of(other));
  ASSERT_TRUE(waiter.comes_to(SYS_recvfrom));
  waiter.cancel();
  EXPECT_FALSE(waiter.join());
  EXPECT_EQ(ibv_destroy_comp_channel(other), 0);
  EXPECT_FALSE(is_open(descriptor));
}

}  // namespace
}  // namespace uroce::test
