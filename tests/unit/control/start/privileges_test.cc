#include "control/start/privileges.h"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "control/start/every_thread.h"

namespace uroce::control {
namespace {

DaemonOptions with(const std::string& port, unsigned socket_mode) {
  DaemonOptions options;
  options.socket_mode = socket_mode;
  options.ports.emplace_back().spec = port;
  return options;
}

bool needs(const DaemonOptions& options, int capability) {
  return (needed_capabilities(options) >> capability & 1) != 0;
}

TEST(Privileges, NoneAreNeededForOneUserOnLoopbackOrSockets) {
  EXPECT_EQ(needed_capabilities(with("loopback", 0600)), 0U);
  EXPECT_EQ(needed_capabilities(with("udp", 0600)), 0U);
}

TEST(Privileges, OtherUsersMemoryNeedsPtrace) {
  EXPECT_TRUE(needs(with("loopback", 0666), CAP_SYS_PTRACE));
  EXPECT_TRUE(needs(with("loopback", 0660), CAP_SYS_PTRACE));
  EXPECT_FALSE(needs(with("loopback", 0666), CAP_NET_ADMIN));
  EXPECT_FALSE(needs(with("loopback", 0666), CAP_SYS_ADMIN));
}

TEST(Privileges, InterfacesAndCardsNeedTheirOwn) {
  const DaemonOptions interface = with("net_af_packet0,iface=eth0", 0600);
  EXPECT_TRUE(needs(interface, CAP_NET_RAW));
  EXPECT_FALSE(needs(interface, CAP_SYS_RAWIO));
  EXPECT_FALSE(needs(interface, CAP_SYS_PTRACE));
  EXPECT_FALSE(needs(interface, CAP_BPF));
  EXPECT_TRUE(needs(with("net_af_xdp0,iface=eth0", 0600), CAP_BPF));
  EXPECT_TRUE(needs(with("0000:01:00.0", 0600), CAP_SYS_RAWIO));
}

std::atomic<int> visits{0};

// Otherwise threads that weren't found would keep their privileges.
TEST(EveryThread, ThatCantBeListedIsAnError) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit none{};
    const bool limited = ::setrlimit(RLIMIT_NOFILE, &none) == 0;
    ::_exit(limited && !on_every_thread([] {}) ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// The threads that were listed before the error aren't all.
TEST(EveryThread, AnIncompleteListIsAnError) {
  const pid_t child = ::fork();
  if (child == 0) {
    sock_filter refuse[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getdents64, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EIO),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{.len = std::size(refuse), .filter = refuse};
    const bool refused = ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
    const Status done = on_every_thread([] {});
    ::_exit(refused && !done && done.error().code == EIO ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// Also for a thread that sleeps in a system call.
TEST(EveryThread, EachRunsItOnce) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer hands signals to sleeping threads only when they wake";
#endif
  int way[2] = {-1, -1};
  ASSERT_EQ(::pipe(way), 0);
  std::thread sleeper([&way] {
    char byte = 0;
    EXPECT_EQ(::read(way[0], &byte, 1), 1) << "a signal restarts the call";
  });
  std::atomic<bool> stop{false};
  std::thread spinner([&stop] {
    while (!stop.load()) {
      ::usleep(1);  // where sanitizers deliver signals
    }
  });
  visits = 0;
  EXPECT_TRUE(on_every_thread([] { visits.fetch_add(1); }));
  EXPECT_EQ(visits.load(), 3);
  stop = true;
  EXPECT_EQ(::write(way[1], "x", 1), 1);
  sleeper.join();
  spinner.join();
  ::close(way[0]);
  ::close(way[1]);
}

// One that has the processor isn't waited for as long as one that is ready to run. The signal is
// pending then, and mustn't end the process where the thread takes it after all.
TEST(EveryThread, AThreadThatTakesNoSignalsIsAnErrorAndNoMore) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP()
      << "ThreadSanitizer hands signals to threads later, and can't start any after fork()";
#endif
  const pid_t child = ::fork();
  if (child == 0) {
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, &before);
    std::atomic<bool> unblock{false};
    std::thread deaf([&unblock, &before] {
      while (!unblock.load()) {
      }
      ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    const Status done = on_every_thread([] {});
    unblock = true;
    deaf.join();
    ::_exit(!done && done.error().code == ETIMEDOUT ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

std::string status_line(const std::string& key) {
  std::ifstream status("/proc/thread-self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key)) {
      return line.substr(key.size());
    }
  }
  return "";
}

TEST(Privileges, AreGivenUpInAllThreads) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer hands signals to sleeping threads only when they wake";
#endif
  const pid_t child = ::fork();
  if (child == 0) {
    int way[2] = {-1, -1};
    bool none = ::pipe(way) == 0;
    std::thread thread([&] {
      char byte = 0;
      none = ::read(way[0], &byte, 1) == 1 && status_line("CapPrm:") == "\t0000000000000000" &&
             status_line("CapEff:") == "\t0000000000000000" && status_line("NoNewPrivs:") == "\t1";
    });
    const bool done = keep_only(0).has_value() && ::write(way[1], "x", 1) == 1;
    thread.join();
    ::_exit(done && none ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace uroce::control
