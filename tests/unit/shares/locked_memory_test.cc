#include "shares/locked_memory.h"

#include <grp.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>
#include <utility>

namespace uroce {
namespace {

constexpr std::uint64_t kLimit = 64 << 10;
constexpr uid_t kNobody = 65'534;

// A program with a limit on locked memory; an ordinary user's if possible.
class Locker {
 public:
  explicit Locker(uid_t uid) : uid_(uid) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    pid = ::fork();
    if (pid == 0) {
      const rlimit limit{.rlim_cur = kLimit, .rlim_max = kLimit};
      ::setrlimit(RLIMIT_MEMLOCK, &limit);
      (void)(uid != ::getuid() && ::setresuid(uid, uid, uid) != 0);
      (void)!::write(ends[1], "r", 1);
      ::pause();
      ::_exit(0);
    }
    char letter = 0;
    EXPECT_EQ(::read(ends[0], &letter, 1), 1);
    ::close(ends[0]);
    ::close(ends[1]);
  }
  ~Locker() {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  Locker(const Locker&) = delete;
  Locker& operator=(const Locker&) = delete;

  [[nodiscard]] ProgramProcess process() const { return {pid, uid_, ::getgid()}; }
  void end() const {
    ::kill(pid, SIGKILL);
    siginfo_t facts{};
    ::waitid(P_PID, static_cast<id_t>(pid), &facts, WEXITED | WNOWAIT);
  }

  pid_t pid = -1;

 private:
  uid_t uid_;
};

TEST(LockedMemory, IsBoundedByTheProgramsLimit) {
  const Locker program(::getuid() == 0 ? kNobody : ::getuid());
  LockedMemory memory;
  {
    const auto half = memory.charge(program.process(), 4'096, kLimit / 2);
    ASSERT_TRUE(half.has_value());
    const auto more = memory.charge(program.process(), 100, kLimit / 2 - 4'096);
    ASSERT_TRUE(more.has_value()) << "counted in whole pages";
    EXPECT_EQ(memory.used(program.pid), kLimit);
    const auto too_much = memory.charge(program.process(), 0, 1);
    ASSERT_FALSE(too_much.has_value());
    EXPECT_EQ(too_much.error().code, ENOMEM);
    EXPECT_NE(too_much.error().message.find("64 KiB of registered memory, 64 KiB are registered"),
              std::string::npos)
        << too_much.error().message;
  }
  EXPECT_EQ(memory.used(program.pid), 0U);
  EXPECT_TRUE(memory.charge(program.process(), 0, kLimit).has_value());
}

TEST(LockedMemory, ThatTakesThePlaceOfAnotherIsCountedOnce) {
  const uid_t uid = ::getuid() == 0 ? kNobody : ::getuid();
  const Locker program(uid), stranger(uid);
  LockedMemory memory;
  auto all = memory.charge(program.process(), 0, kLimit);
  const auto others = memory.charge(stranger.process(), 0, kLimit);
  ASSERT_TRUE(all.has_value() && others.has_value());
  EXPECT_FALSE(memory.charge(program.process(), 0, kLimit, &*others).has_value());
  EXPECT_FALSE(memory.charge(program.process(), 0, kLimit + 4'096, &*all).has_value());
  auto again = memory.charge(program.process(), 0, kLimit, &*all);
  ASSERT_TRUE(again.has_value());
  *all = std::move(*again);
  EXPECT_EQ(memory.used(program.pid), kLimit);
}

TEST(LockedMemory, IsCountedPerProgram) {
  const uid_t uid = ::getuid() == 0 ? kNobody : ::getuid();
  const Locker one(uid), two(uid);
  LockedMemory memory;
  const auto all = memory.charge(one.process(), 0, kLimit);
  ASSERT_TRUE(all.has_value());
  EXPECT_FALSE(memory.charge(one.process(), 0, kLimit).has_value());
  EXPECT_TRUE(memory.charge(two.process(), 0, kLimit).has_value());
}

// Its connection is in other hands then, and another program may have its process id.
TEST(LockedMemory, OfAProgramThatHasEndedCantGrow) {
  const Locker program(::getuid() == 0 ? kNobody : ::getuid());
  const ProgramProcess connected = program.process();
  LockedMemory memory;
  const auto some = memory.charge(connected, 0, kLimit / 2);
  ASSERT_TRUE(some.has_value());
  program.end();
  const auto more = memory.charge(connected, 0, kLimit / 2);
  ASSERT_FALSE(more.has_value());
  EXPECT_EQ(more.error().code, EPERM);
  EXPECT_NE(more.error().message.find("has ended"), std::string::npos) << more.error().message;
}

// What can't be read isn't taken for unlimited, and isn't remembered.
TEST(LockedMemory, IsRefusedWhileTheLimitCantBeRead) {
  const Locker program(::getuid() == 0 ? kNobody : ::getuid());
  const ProgramProcess process = program.process();
  LockedMemory memory;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::dup(0);
  ::close(next);
  const rlimit none{.rlim_cur = static_cast<rlim_t>(next), .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto unread = memory.charge(process, 0, kLimit / 2);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(unread.has_value());
  EXPECT_EQ(unread.error().code, EMFILE) << unread.error().message;
  EXPECT_EQ(memory.used(program.pid), 0U);
  const auto beyond = memory.charge(process, 0, kLimit + 1);
  ASSERT_FALSE(beyond.has_value());
  EXPECT_EQ(beyond.error().code, ENOMEM);
  EXPECT_TRUE(memory.charge(process, 0, kLimit).has_value());
}

// In a process of its own, which can't see others' processes: the statuses with which it exits.
enum Seen : std::uint8_t { kBoundedByOwn = 0, kCantHide, kNotBounded, kRefused };

Seen charge_unseen(const ProgramProcess& program) {
  const rlimit own{.rlim_cur = 2 * kLimit, .rlim_max = 2 * kLimit};
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("proc", "/proc", "proc", 0, "hidepid=2") != 0 ||
      ::setrlimit(RLIMIT_MEMLOCK, &own) != 0 ||
      ::setgroups(0, nullptr) != 0 ||  // group 0 is exempt from hidepid
      ::setresgid(kNobody - 1, kNobody - 1, kNobody - 1) != 0 ||
      ::setresuid(kNobody - 1, kNobody - 1, kNobody - 1) != 0) {
    return kCantHide;
  }
  LockedMemory memory;
  const auto within = memory.charge(program, 0, 2 * kLimit);
  const auto beyond = memory.charge(program, 0, 4'096);
  const bool said = !beyond && beyond.error().code == ENOMEM &&
                    beyond.error().message.find("can't see") != std::string::npos;
  return !within ? kRefused : said ? kBoundedByOwn : kNotBounded;
}

// A daemon without rights where users don't see each other's processes: its programs work.
TEST(LockedMemory, OfAProgramThatCantBeSeenIsBoundedByTheDaemonsOwnLimit) {
  const Locker program(::getuid() == 0 ? kNobody : ::getuid());
  const ProgramProcess process = program.process();
  const pid_t daemon = ::fork();
  if (daemon == 0) {
    ::_exit(charge_unseen(process));
  }
  int status = 0;
  ASSERT_EQ(::waitpid(daemon, &status, 0), daemon);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kCantHide) {
    GTEST_SKIP() << "only root can mount /proc and become another user";
  }
  EXPECT_EQ(WEXITSTATUS(status), kBoundedByOwn);
}

TEST(LockedMemory, IsNotBoundedWithCapIpcLock) {
  if (::getuid() != 0) {
    GTEST_SKIP() << "only root has CAP_IPC_LOCK";
  }
  const Locker root(0);
  LockedMemory memory;
  EXPECT_TRUE(memory.charge(root.process(), 0, 100 * kLimit).has_value());
}

}  // namespace
}  // namespace uroce
