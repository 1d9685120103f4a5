// A program connects, passes its socket on and ends, and its PID is reused by a process of the same
// user: the daemon must not access that process instead.

#include <gtest/gtest.h>
#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <string>
#include <system_error>

#include "base/sockets/descriptor_message.h"
#include "mmu/pinned/program_memory.h"
#include "mmu/proc_mem/proc_mem.h"
#include "tests/unit/mmu/pages.h"

namespace uroce::test {
namespace {

// A child that waits to be killed. REQUIRES: root, to choose the PID; 0: any PID.
pid_t start_child(pid_t number) {
  clone_args wanted{};
  wanted.exit_signal = SIGCHLD;
  wanted.set_tid = reinterpret_cast<std::uint64_t>(&number);
  wanted.set_tid_size = 1;
  const auto child =
      number == 0 ? ::fork() : static_cast<pid_t>(::syscall(SYS_clone3, &wanted, sizeof(wanted)));
  if (child == 0) {
    for (;;) {
      ::pause();
    }
  }
  return child;
}

void end_child(pid_t child) {
  ASSERT_GT(child, 1) << "kill(-1) would kill every process";
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

// Not a failure of the code under test: the kernel refused the PID, or another process got it
// first.
std::string why_not_given(int error) {
  return "no process can be made with the number of one that has ended: clone3 says " +
         std::generic_category().message(error) +
         (error == EPERM    ? " (it takes CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN)"
          : error == EEXIST ? " (another process of this machine has got it)"
                            : "");
}
bool is_refusal(int error) { return error == EPERM || error == EEXIST || error == ENOSYS; }

// Another process creates the socket pair, so the kernel takes it for the peer of both ends.
class ReusedNumber : public testing::Test {
 public:
  explicit ReusedNumber() {
    int ways[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ways), 0);
    const UniqueFd ours(ways[0]);
    const UniqueFd theirs(ways[1]);
    program = ::fork();
    if (program == 0) {
      int pair[2] = {-1, -1};
      const bool made = ::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0;
      const std::byte none{};
      const bool sent = send_message(theirs.get(), {&none, 1}, {pair, 1}) == 1;
      while (made && sent) {
        ::pause();
      }
      ::_exit(1);
    }
    std::byte byte{};
    Descriptors received;
    EXPECT_EQ(receive_message(ours.get(), {&byte, 1}, 0, &received).length, 1);
    socket = received.take(0);
  }
  ~ReusedNumber() override { end_child(program); }

  [[nodiscard]] ProgramProcess connected() const {
    auto process = ProgramProcess::at(socket.get(), program, ::getuid(), ::getgid());
    EXPECT_TRUE(process);
    return *process;
  }
  int reach(const ProgramProcess& process) {
    ProgramMemory memory(make_private_account());
    const abi::MemoryPiece piece{.address = kBase,
                                 .length = kPage,
                                 .offset = 0,
                                 .map_start = 0,
                                 .map_end = 0,
                                 .kind = abi::PieceKind::kProcMem,
                                 .source = 0};
    auto region = memory.make_region(
        {.pd = 1, .access = kAccessLocalWrite, .address = kBase, .length = kPage, .iova = kBase},
        {&piece, 1}, {}, ProgramMemory::open(process, {&piece, 1}, true));
    return region ? 0 : region.error().code;
  }
  // The program ends, and another process gets its PID. Returns the error if the machine doesn't
  // allow it; `program` is some other child then.
  int give_number_away() {
    const pid_t number = program;
    end_child(program);
    program = start_child(number);
    if (program == number) {
      return 0;
    }
    const int error = errno;
    program = start_child(0);
    EXPECT_GT(program, 1);
    return error;
  }

  pid_t program = -1;
  UniqueFd socket;
};

TEST_F(ReusedNumber, ALivingProgramIsReached) {
  const ProgramProcess process = connected();
  EXPECT_TRUE(process.check());
  EXPECT_TRUE(process.shares_user_namespace());
  EXPECT_EQ(reach(process), 0);
}

TEST_F(ReusedNumber, NothingIsReachedAfterTheProgramHasEnded) {
  const ProgramProcess process = connected();
  end_child(program);
  EXPECT_EQ(reach(process), EPERM);
  program = start_child(0);
  ASSERT_GT(program, 1);
}

TEST_F(ReusedNumber, AProcessWithAReusedPidIsNotReached) {
  const ProgramProcess process = connected();
  if (const int error = give_number_away(); error != 0) {
    ASSERT_TRUE(is_refusal(error)) << why_not_given(error);
    GTEST_SKIP() << why_not_given(error);
  }
  EXPECT_EQ(reach(process), EPERM);
  EXPECT_EQ(reach(ProgramProcess(program, ::getuid(), ::getgid())), 0)
      << "by itself it is reachable";
}

TEST_F(ReusedNumber, APidReusedBeforeAcceptIsNotReached) {
  if (const int error = give_number_away(); error != 0) {
    ASSERT_TRUE(is_refusal(error)) << why_not_given(error);
    GTEST_SKIP() << why_not_given(error);
  }
  EXPECT_EQ(reach(connected()), EPERM);
}

TEST_F(ReusedNumber, AProcessInAnotherUserNamespaceIsNotReached) {
  int ways[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ways), 0);
  const UniqueFd ours(ways[0]);
  const UniqueFd theirs(ways[1]);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    char byte = 0;
    int error = ::read(theirs.get(), &byte, 1) == 1 ? 0 : EIO;
    if (error == 0 && ::syscall(SYS_unshare, CLONE_NEWUSER) != 0) {
      error = errno;
    }
    (void)!::write(theirs.get(), &error, sizeof(error));
    for (;;) {
      ::pause();
    }
  }
  const ProgramProcess process(child, ::getuid(), ::getgid());
  EXPECT_TRUE(process.check());
  EXPECT_EQ(::write(ours.get(), "x", 1), 1);
  int error = EIO;
  EXPECT_EQ(::read(ours.get(), &error, sizeof(error)), static_cast<ssize_t>(sizeof(error)));
  const bool checked = process.check().has_value();
  const bool shares = ProgramProcess(child, ::getuid(), ::getgid()).shares_user_namespace();
  end_child(child);
  if (error != 0) {
    GTEST_SKIP() << "this machine gives no user namespace: unshare says "
                 << std::generic_category().message(error);
  }
  EXPECT_FALSE(shares);
  EXPECT_FALSE(checked);
}

}  // namespace
}  // namespace uroce::test
