// Sharing by an ordinary user, with a daemon of root and with one of the same user, and the limits
// that apply to ordinary users only. Each in a child that drops its privileges.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/unit/shim_memory/stand_in.h"

namespace uroce::test {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::uint32_t kNobody = 65'534;

std::uint64_t in_data[1024] = {1, 2, 3};

std::uint64_t* map(std::size_t length, int flags = MAP_PRIVATE | MAP_ANONYMOUS,
                   int descriptor = -1) {
  return static_cast<std::uint64_t*>(
      ::mmap(nullptr, length, PROT_READ | PROT_WRITE, flags, descriptor, 0));
}

// 0 if both sides see each other's writes, else the number of the step that failed.
int try_both_ways(StandIn& daemon, std::uint64_t* word, std::uint32_t remote_pieces) {
  word[0] = 17;
  const Registered registered = daemon.share(word, kPage);
  if (registered.error != 0) {
    return 10 + static_cast<int>(registered.error);
  }
  if (registered.remote_pieces != remote_pieces) {
    return 2;
  }
  const bool there = daemon.load(word) == 17 && daemon.store(word, 18) &&
                     static_cast<volatile std::uint64_t*>(word)[0] == 18;
  return there ? 0 : 3;
}

class Unprivileged : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::getuid() != 0) {
      GTEST_SKIP() << "only root can become another user";
    }
  }

  // Runs the work as `nobody`, like a program started by that user.
  template <typename Work>
  static int as_nobody(Work work) {
    const pid_t child = ::fork();
    if (child == 0) {
      const bool became = ::setresgid(kNobody, kNobody, kNobody) == 0 &&
                          ::setresuid(kNobody, kNobody, kNobody) == 0 &&
                          ::prctl(PR_SET_DUMPABLE, 1) == 0;
      ::_exit(became ? work() : 99);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }
};

TEST_F(Unprivileged, WithADaemonThatIsRoot) {
  StandIn daemon;
  EXPECT_EQ(as_nobody([&] {
              daemon.set_program(::getpid(), kNobody, kNobody);
              return try_both_ways(daemon, map(kPage), 0);
            }),
            0);
  EXPECT_EQ(as_nobody([&] {
              daemon.set_program(::getpid(), kNobody, kNobody);
              return try_both_ways(daemon, map(kPage, MAP_SHARED | MAP_ANONYMOUS), 0);
            }),
            0);
  EXPECT_EQ(as_nobody([&] {
              daemon.set_program(::getpid(), kNobody, kNobody);
              return try_both_ways(daemon, in_data, 1);
            }),
            0);
}

TEST_F(Unprivileged, WithADaemonOfTheSameUser) {
  EXPECT_EQ(as_nobody([] {
              StandIn daemon;
              return try_both_ways(daemon, map(kPage), 0);
            }),
            0);
  EXPECT_EQ(as_nobody([] {
              StandIn daemon;
              const UniqueFd file(::memfd_create("test", MFD_CLOEXEC));
              if (::ftruncate(file.get(), kPage) != 0) {
                return 1;
              }
              return try_both_ways(daemon, map(kPage, MAP_SHARED, file.get()), 0);
            }),
            0);
}

// Only root can access another user's memory by copying.
TEST_F(Unprivileged, ADaemonOfAnotherUserIsRefused) {
  EXPECT_EQ(as_nobody([] {
              StandIn daemon;
              daemon.set_program(::getppid(), 0, 0);
              return static_cast<int>(daemon.share(in_data, kPage).error);
            }),
            EPERM);
}

// The kernel lets an ordinary user suspend other threads' stores (userfaultfd), but not system
// calls.
TEST_F(Unprivileged, StoresOfOtherThreadsAreKept) {
  EXPECT_EQ(as_nobody([] {
              constexpr std::size_t kWords = 1 << 20;
              StandIn daemon;
              std::uint64_t* const words = map(kWords * sizeof(std::uint64_t));
              std::vector<std::uint64_t> expected(kWords);
              std::atomic<bool> stop{false};
              std::atomic<bool> started{false};
              std::thread writer([&] {
                for (std::uint64_t i = 1; !stop; ++i) {
                  const std::size_t at = i * 7919 % kWords;
                  static_cast<volatile std::uint64_t*>(words)[at] = i;
                  expected[at] = i;
                  started = true;
                }
              });
              while (!started) {
                std::this_thread::yield();
              }
              const Registered registered = daemon.share(words, kWords * sizeof(std::uint64_t));
              stop = true;
              writer.join();
              for (std::size_t i = 0; i < kWords; ++i) {
                if (words[i] != expected[i]) {
                  return 4;
                }
              }
              return registered.error == 0 && registered.remote_pieces == 0 ? 0 : 5;
            }),
            0);
}

TEST_F(Unprivileged, TheLimitOnLockedMemoryApplies) {
  EXPECT_EQ(as_nobody([] {
              const rlimit limit = {.rlim_cur = 4 * kPage, .rlim_max = 4 * kPage};
              ::setrlimit(RLIMIT_MEMLOCK, &limit);
              const auto address = reinterpret_cast<std::uintptr_t>(map(16 * kPage));
              std::vector<shim::HeldMemory> held;
              const auto charge = [&](std::uint64_t pages, std::uint32_t access) {
                auto result = shim::describe_memory(address, pages * kPage, access);
                if (result) {
                  held.push_back(std::move(result->held));
                }
                return result ? 0 : result.error().code;
              };
              constexpr std::uint32_t kWriting = kAccessLocalWrite;
              if (charge(3, kWriting) != 0 || charge(2, kWriting) != ENOMEM ||
                  charge(1, kWriting) != 0 || charge(1, kWriting) != ENOMEM) {
                return 1;
              }
              if (charge(16, kWriting | kAccessOnDemand) != 0) {
                return 2;
              }
              shim::release_memory(held.back());
              shim::release_memory(held.front());
              if (charge(3, kWriting) != 0) {
                return 3;
              }
              const auto refused = shim::describe_memory(address, 2 * kPage, kWriting);
              const bool named =
                  refused.error().message.view().find("16 KiB") != std::string::npos &&
                  refused.error().message.view().find("ulimit -l") != std::string::npos;
              return named ? 0 : 4;
            }),
            0);
}

}  // namespace
}  // namespace uroce::test
