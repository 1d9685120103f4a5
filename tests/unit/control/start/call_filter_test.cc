#include "control/start/call_filter.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <functional>
#include <string>
#include <thread>

#include "base/unique_fd.h"

namespace uroce::control {
namespace {

class CallFilterTest : public testing::Test {
 protected:
  void SetUp() override {
    if (kSanitized) {
      GTEST_SKIP() << "a sanitizer makes system calls of its own";
    }
  }
};

// Runs in a child, since a filter can't be removed. The child's standard error, and its wait
// status.
struct Ended {
  std::string said;
  int status = 0;
  [[nodiscard]] bool well() const { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }
};

Ended in_a_child(const std::function<bool()>& body) {
  int way[2] = {-1, -1};
  EXPECT_EQ(::pipe(way), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(way[1], STDERR_FILENO);
    ::_exit(body() ? 0 : 1);
  }
  ::close(way[1]);
  Ended ended;
  char bytes[512];
  for (ssize_t got = 0; (got = ::read(way[0], bytes, sizeof(bytes))) > 0;) {
    ended.said.append(bytes, static_cast<std::size_t>(got));
  }
  ::close(way[0]);
  ::waitpid(child, &ended.status, 0);
  return ended;
}

bool may_open() { return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)).valid(); }
// Whether mkfifo() is permitted; makes nothing, since the name exists.
bool may_make_nodes() { return ::mkfifo("/", 0600) != 0 && errno == EEXIST; }

TEST_F(CallFilterTest, AnUnlistedCallIsRefusedAndNamed) {
  const Ended ended = in_a_child([] {
    return filter_all_threads(CallFilter::kOn, CallList::kService) && may_open() &&
           !may_make_nodes() && !may_make_nodes();
  });
  EXPECT_TRUE(ended.well()) << ended.said;
  EXPECT_NE(ended.said.find("system call " + std::to_string(SYS_mknodat)), std::string::npos)
      << ended.said;
  EXPECT_NE(ended.said.find("refused"), std::string::npos) << ended.said;
  EXPECT_EQ(ended.said.find('\n'), ended.said.size() - 1) << "reported once: " << ended.said;
}

TEST_F(CallFilterTest, ACallThatNoDaemonMakesEndsIt) {
  const Ended ended = in_a_child([] {
    char name[] = "/bin/true";
    char* const arguments[] = {name, nullptr};
    return filter_all_threads(CallFilter::kOn, CallList::kService) && ::execv(name, arguments) == 0;
  });
  EXPECT_FALSE(ended.well());
  EXPECT_NE(ended.said.find("execve"), std::string::npos) << ended.said;
  EXPECT_NE(ended.said.find("ends"), std::string::npos) << ended.said;
}

TEST_F(CallFilterTest, AWorkerMayOpenNothingThoughOthersMay) {
  const Ended ended = in_a_child([] {
    bool worker = true;
    bool other = filter_all_threads(CallFilter::kOn, CallList::kService).has_value();
    std::thread([&worker] {
      worker = !filter_this_thread(CallFilter::kOn, CallList::kWorker) || may_open();
    }).join();
    return !worker && other && may_open();
  });
  EXPECT_TRUE(ended.well()) << ended.said;
  EXPECT_NE(ended.said.find("openat"), std::string::npos) << ended.said;
}

// A worker that raises a fault gives the fault thread back the priority that it had lowered.
TEST_F(CallFilterTest, AWorkerMaySetAThreadsPriority) {
  const Ended ended = in_a_child([] {
    const sched_param ordinary{.sched_priority = 0};
    const int nice = ::getpriority(PRIO_PROCESS, 0);
    return filter_this_thread(CallFilter::kOn, CallList::kWorker) &&
           ::sched_setscheduler(0, SCHED_OTHER, &ordinary) == 0 &&
           ::setpriority(PRIO_PROCESS, 0, nice) == 0;
  });
  EXPECT_TRUE(ended.well()) << ended.said;
}

TEST_F(CallFilterTest, RunningThreadsGetItToo) {
  const Ended ended = in_a_child([] {
    int way[2] = {-1, -1};
    bool refused = ::pipe(way) == 0;
    std::thread thread([&] {
      char byte = 0;
      refused = ::read(way[0], &byte, 1) == 1 && !may_make_nodes();
    });
    const bool filtered = filter_all_threads(CallFilter::kOn, CallList::kService).has_value();
    const bool told = ::write(way[1], "x", 1) == 1;
    thread.join();
    return filtered && told && refused;
  });
  EXPECT_TRUE(ended.well()) << ended.said;
}

TEST_F(CallFilterTest, KillEndsAtTheFirstViolation) {
  const Ended ended = in_a_child(
      [] { return filter_all_threads(CallFilter::kKill, CallList::kService) && may_make_nodes(); });
  EXPECT_TRUE(WIFSIGNALED(ended.status) && WTERMSIG(ended.status) == SIGSYS);
}

TEST_F(CallFilterTest, OffChangesNothing) {
  EXPECT_TRUE(in_a_child([] {
                return filter_all_threads(CallFilter::kOff, CallList::kService).has_value();
              }).well());
}

}  // namespace
}  // namespace uroce::control
