// The parent of a fork goes on when the child has its copies, and not before, despite signals and a
// lack of descriptors.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <new>
#include <optional>

#include "tests/unit/shim_memory/filled_memory.h"
#include "verbs_shim/memory/pinned/registered_memory.h"
#include "verbs_shim/memory/sharing/fork_wait.h"

namespace uroce::test {
namespace {

using shim::ForkWait;

constexpr std::uint64_t kFull = ~std::uint64_t{0};

// Too few free descriptors for a pipe, but enough for a child to read its mappings.
class OneMoreFile {
 public:
  OneMoreFile() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const int lowest_free = ::dup(0);
    ::close(lowest_free);
    const rlimit limit{.rlim_cur = static_cast<rlim_t>(lowest_free) + 1,
                       .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  ~OneMoreFile() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  OneMoreFile(const OneMoreFile&) = delete;
  OneMoreFile& operator=(const OneMoreFile&) = delete;

 private:
  rlimit before_{};
};

// A signal every millisecond, as from profilers. Not in children.
class Alarms {
 public:
  static inline std::atomic<unsigned>* handled = nullptr;  // in memory that a child shares

  Alarms() {
    void* const page = ::mmap(nullptr, sizeof(*handled), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(page, MAP_FAILED);
    handled = new (page) std::atomic<unsigned>(0);
    struct sigaction action {};
    action.sa_handler = [](int) { handled->fetch_add(1); };
    action.sa_flags = SA_RESTART;
    EXPECT_EQ(::sigaction(SIGALRM, &action, &before_), 0);
    set(1'000);
  }
  ~Alarms() {
    set(0);
    ::sigaction(SIGALRM, &before_, nullptr);
    ::munmap(handled, sizeof(*handled));
  }
  Alarms(const Alarms&) = delete;
  Alarms& operator=(const Alarms&) = delete;

 private:
  static void set(suseconds_t us) {
    const itimerval every{.it_interval = {.tv_sec = 0, .tv_usec = us},
                          .it_value = {.tv_sec = 0, .tv_usec = us}};
    EXPECT_EQ(::setitimer(ITIMER_REAL, &every, nullptr), 0);
  }
  struct sigaction before_ {};
};

ForkWait::Time in(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

constexpr std::chrono::minutes kLong{1};

// Whether there are descriptors for a pipe.
class ForkWaitTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(wait_.open());
    if (!GetParam()) {
      few_.emplace();
    }
  }

  // The child runs `work` after begin().
  template <typename Work>
  pid_t fork_child(Work work) {
    wait_.prepare();
    const pid_t child = ::fork();
    if (child == 0) {
      wait_.begin();
      work();
      wait_.end();
      ::_exit(0);
    }
    return child;
  }

  ForkWait wait_;
  std::optional<OneMoreFile> few_;
};

TEST_P(ForkWaitTest, SignalsDontEndIt) {
  const Alarms alarms;
  const pid_t child = fork_child([] {
    while (Alarms::handled->load() < 10) {
    }
  });
  EXPECT_TRUE(wait_.wait(in(kLong)));
  EXPECT_GE(Alarms::handled->load(), 10U);
  ::waitpid(child, nullptr, 0);
}

TEST_P(ForkWaitTest, EndsWithTheChild) {
  const pid_t child = fork_child([] { ::_exit(0); });
  const ForkWait::Time deadline = in(kLong);
  EXPECT_TRUE(wait_.wait(deadline));
  EXPECT_LT(std::chrono::steady_clock::now(), deadline);
  ::waitpid(child, nullptr, 0);
}

TEST_P(ForkWaitTest, EndsAtTheDeadline) {
  const pid_t child = fork_child([] { ::pause(); });
  EXPECT_FALSE(wait_.wait(in(std::chrono::milliseconds{50})));
  // Another child isn't confused with the late one.
  const pid_t next = fork_child([] {});
  EXPECT_TRUE(wait_.wait(in(kLong)));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::waitpid(next, nullptr, 0);
}

// A parent's fork handlers are also called if the fork failed.
TEST(ForkWaitByPipe, EndsAtOnceIfTheForkFailed) {
  ForkWait wait;
  wait.prepare();
  const ForkWait::Time deadline = in(kLong);
  EXPECT_TRUE(wait.wait(deadline));
  EXPECT_LT(std::chrono::steady_clock::now(), deadline);
}

// The parent writes right after the fork, which the child mustn't see.
TEST_P(ForkWaitTest, AChildIsACopyDespiteSignals) {
  constexpr std::size_t kBytes = 64 << 20;
  std::uint64_t* const memory = map_filled(kBytes);
  few_.reset();
  auto description = shim::describe_memory(reinterpret_cast<std::uintptr_t>(memory), kBytes, 1);
  ASSERT_TRUE(description);
  ASSERT_EQ(description->pieces.front().kind, abi::PieceKind::kArena);
  if (!GetParam()) {
    few_.emplace();  // converting needs descriptors, too
  }
  const Alarms alarms;
  const pid_t child = ::fork();
  if (child == 0) {
    for (std::size_t i = 0; i < kBytes / sizeof(*memory); ++i) {
      if (memory[i] != kFull) {
        ::_exit(1);
      }
    }
    ::_exit(0);
  }
  std::memset(memory, 0, kBytes);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  shim::release_memory(description->held);
  ::munmap(memory, kBytes);
}

INSTANTIATE_TEST_SUITE_P(Ways, ForkWaitTest, ::testing::Values(true, false),
                         [](const auto& way) { return way.param ? "ByPipe" : "ByPage"; });

}  // namespace
}  // namespace uroce::test
