// A program connects, passes its socket on and ends, and its process number goes to a process of
// the same user: what is opened for the program must not be that one's.

#include <gtest/gtest.h>
#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>

#include "base/descriptor_message.h"
#include "mmu/program_memory.h"
#include "mmu/remote_memory.h"
#include "tests/unit/mmu/pages.h"

namespace uroce::test {
namespace {

// A child that waits to be ended. REQUIRES: root, to choose the number; 0: any.
pid_t start_child(pid_t number) {
  clone_args wanted{};
  wanted.exit_signal = SIGCHLD;
  if (number != 0) {
    wanted.set_tid = reinterpret_cast<std::uint64_t>(&number);
    wanted.set_tid_size = 1;
  }
  const auto child = static_cast<pid_t>(::syscall(SYS_clone3, &wanted, sizeof(wanted)));
  if (child == 0) {
    for (;;) {
      ::pause();
    }
  }
  return child;
}

void end_child(pid_t child) {
  ASSERT_GT(child, 1) << "kill(-1) would end everybody";
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

// Another process makes the pair, so it is whom the kernel takes both ends' peer for.
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
    auto process = ProgramProcess::at(socket.get(), program, ::getuid());
    EXPECT_TRUE(process);
    return *process;
  }
  int reach(const ProgramProcess& process) {
    ProgramMemory memory(account_of_its_own());
    const abi::MemoryPiece piece{.address = kBase,
                                 .length = kPage,
                                 .offset = 0,
                                 .map_start = 0,
                                 .map_end = 0,
                                 .kind = abi::PieceKind::kRemote,
                                 .source = 0};
    auto region = memory.make_region(
        {.pd = 1, .access = kAccessLocalWrite, .address = kBase, .length = kPage, .iova = kBase},
        {&piece, 1}, {}, ProgramMemory::open(process, {&piece, 1}, true));
    return region ? 0 : region.error().code;
  }
  // The program ends, and another has its number.
  void give_number_away() {
    const pid_t number = program;
    end_child(program);
    program = start_child(number);
    if (program < 0) {
      program = ::fork();
      if (program == 0) {
        ::pause();
      }
      GTEST_SKIP() << "only root can choose the number of a process";
    }
    ASSERT_EQ(program, number);
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

TEST_F(ReusedNumber, AfterTheProgramsEndNothingIsReached) {
  const ProgramProcess process = connected();
  end_child(program);
  EXPECT_EQ(reach(process), EPERM);
  program = start_child(0);
  ASSERT_GT(program, 1);
}

TEST_F(ReusedNumber, AnotherWithTheNumberIsLeftAlone) {
  const ProgramProcess process = connected();
  give_number_away();
  EXPECT_EQ(reach(process), EPERM);
  EXPECT_EQ(reach(ProgramProcess(program, ::getuid())), 0) << "it could be";
}

TEST_F(ReusedNumber, AnotherWithTheNumberBeforeAcceptIsLeftAlone) {
  give_number_away();
  EXPECT_EQ(reach(connected()), EPERM);
}

TEST_F(ReusedNumber, AnotherUserNamespaceIsLeftAlone) {
  int way[2] = {-1, -1};
  ASSERT_EQ(::pipe(way), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char byte = 0;
    const bool done = ::read(way[0], &byte, 1) == 1 && ::syscall(SYS_unshare, CLONE_NEWUSER) == 0;
    static_cast<void>(!done);
    ::raise(SIGSTOP);
    ::pause();
  }
  const ProgramProcess process(child, ::getuid());
  EXPECT_TRUE(process.check());
  EXPECT_EQ(::write(way[1], "x", 1), 1);
  int status = 0;
  ::waitpid(child, &status, WUNTRACED);
  const ProgramProcess after(child, ::getuid());
  if (after.shares_user_namespace()) {
    end_child(child);
    GTEST_SKIP() << "no user namespaces here";
  }
  EXPECT_FALSE(process.check());
  end_child(child);
  ::close(way[0]);
  ::close(way[1]);
}

}  // namespace
}  // namespace uroce::test
