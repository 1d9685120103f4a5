// number: a program connects, passes its connection to its parent and ends; the parent then
// registers memory of the process that has the program's PID now. holder NUMBER UID: that process,
// which root starts, since only root may choose a PID; an attacker would wait until PIDs wrap
// around.

#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "base/sockets/descriptor_message.h"
#include "tests/hostile/attack.h"

namespace uroce::hostile {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kSecretAt = 0x2000'0000'0000;

// Runs in the program that ends.
[[noreturn]] void connect_and_pass_on(int relative) {
  const auto socket = connect_to(socket_path());
  const std::byte none{};
  const int passed = socket ? socket->get() : -1;
  ::_exit(socket && send_message(relative, {&none, 1}, {&passed, 1}) == 1 ? 0 : 1);
}

}  // namespace

int attack_by_number(Arguments /*arguments*/) {
  int ways[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ways) != 0) {
    give_up("no socket pair");
  }
  const pid_t program = ::fork();
  if (program == 0) {
    connect_and_pass_on(ways[1]);
  }
  std::byte none{};
  Descriptors received;
  (void)receive_message(ways[0], {&none, 1}, 0, &received);
  RawSession session(received.take(0));
  // Its PID is free once it has been waited for.
  ::waitpid(program, nullptr, 0);
  std::printf("number %d\n", program);
  say_attacking();
  char line[16];
  if (std::fgets(line, sizeof(line), stdin) == nullptr || session.open().closed) {
    give_up("the session was closed");
  }
  const Answer pd = session.ask(abi::Command::kAllocPd, Bare{});
  RegisterOnePiece request = one_piece(abi::PieceKind::kProcMem, kSecretAt, kPage);
  request.access = 7;  // local write, remote write, remote read
  request.pd = pd.as<abi::HandleReply>().handle;
  const Answer answer = session.ask(abi::Command::kRegMr, request);
  if (pd.header.error != 0 || answer.closed) {
    give_up("the attack couldn't be made");
  }
  std::printf("%s: %s\n", answer.header.error == 0 ? "registered" : "refused",
              answer.header.message);
  return 0;
}

int hold_number(Arguments arguments) {
  const auto number_wanted = static_cast<pid_t>(number(arguments, 0, 0));
  const auto user = static_cast<uid_t>(number(arguments, 1, 0));
  clone_args wanted{};
  wanted.exit_signal = SIGCHLD;
  wanted.set_tid = reinterpret_cast<std::uint64_t>(&number_wanted);
  wanted.set_tid_size = 1;
  const auto child = static_cast<pid_t>(::syscall(SYS_clone3, &wanted, sizeof(wanted)));
  if (child < 0) {
    give_up("the number can't be had");
  }
  if (child != 0) {
    ::waitpid(child, nullptr, 0);
    return 0;
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  void* const secret = ::mmap(reinterpret_cast<void*>(kSecretAt), kPage, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (secret == MAP_FAILED || ::setgid(user) != 0 || ::setuid(user) != 0 ||
      ::prctl(PR_SET_DUMPABLE, 1) != 0 || ::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
    ::_exit(1);
  }
  std::snprintf(static_cast<char*>(secret), kPage, "a secret");
  say_attacking();
  for (;;) {
    ::pause();
  }
}

}  // namespace uroce::hostile
