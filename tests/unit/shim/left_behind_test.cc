// Threads that wait for events of a channel that is destroyed, or of a device that is closed: they
// wait on, as in Linux, and never read what isn't theirs.

#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <list>
#include <string>
#include <thread>
#include <utility>

#include "tests/unit/shim/verbs_fixture.h"
#include "tests/unit/shim_memory/asan.h"

namespace uroce::test {
namespace {

#ifdef SYS_pause
constexpr long kPause = SYS_pause;
#else
constexpr long kPause = SYS_ppoll;  // that libc calls for it
#endif

bool is_open(int descriptor) { return fcntl(descriptor, F_GETFD) >= 0; }

// A thread that waits in a verb.
class Waiter {
 public:
  explicit Waiter(std::function<void()> verb) : verb_(std::move(verb)) {
    EXPECT_EQ(pthread_create(&thread_, nullptr, work, this), 0);
  }
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  // Waits until the thread is in that system call. False: it came out of the verb.
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
  // Whether it came out of the verb. REQUIRES: it will, or was cancelled.
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

// One whose thread stays in the verb until the process ends.
Waiter& leave_behind(std::function<void()> verb) {
  static std::list<Waiter> all;
  return all.emplace_back(std::move(verb));
}

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

TEST_F(LeftBehind, ADestroyedChannelsThreadWaitsOn) {
  ibv_comp_channel* const other = ibv_create_comp_channel(context);
  ASSERT_NE(other, nullptr);
  const int descriptor = other->fd;
  const Waiter& waiter = leave_behind(event_of(other));
  ASSERT_TRUE(waiter.comes_to(SYS_recvfrom));
  EXPECT_EQ(ibv_destroy_comp_channel(other), 0);
  EXPECT_TRUE(is_open(descriptor)) << "the program's next file would get the number";
  daemon.announce(abi::CompletionEvent{.cq_cookie = cq_cookie});  // both channels are one socket
  EXPECT_TRUE(waiter.comes_to(kPause));
}

TEST_F(LeftBehind, AClosedDevicesThreadWaitsOn) {
  ibv_device* const device = context->device;
  ibv_context* const other = ibv_open_device(device);
  ASSERT_NE(other, nullptr);
  const int descriptor = other->async_fd;
  const Waiter& waiter = leave_behind(event_of(other));
  ASSERT_TRUE(waiter.comes_to(SYS_recvfrom));
  EXPECT_EQ(ibv_close_device(other), 0);
  EXPECT_TRUE(is_open(descriptor)) << "the program's next file would get the number";
  daemon.announce(
      abi::AsyncEventRecord{.event = IBV_EVENT_QP_FATAL, .handle = 0, .cookie = qp_cookie});
  EXPECT_TRUE(waiter.comes_to(kPause));
}

// The daemon may say no; then the channel and whoever waits there go on.
TEST_F(LeftBehind, AChannelThatStaysKeepsItsThread) {
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

// Nothing is kept for a thread that is no more.
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
