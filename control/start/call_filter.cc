#include "control/start/call_filter.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <vector>

#include "base/system_error.h"

namespace uroce::control {
namespace {

enum class CallBy : std::uint8_t { kWorker, kService, kDriver, kNever };

struct ListedCall {
  const char* name;
  std::uint32_t number;
  CallBy who;
};

#define UROCE_CALL(name, who) {#name, __NR_##name, CallBy::who},
#define UROCE_NO_CALL(name, who)
#if defined(__x86_64__)
#define UROCE_CALL_AMD64 UROCE_CALL
#define UROCE_CALL_ARM64 UROCE_NO_CALL
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#else
#define UROCE_CALL_AMD64 UROCE_NO_CALL
#define UROCE_CALL_ARM64 UROCE_CALL
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#endif

constexpr ListedCall kCalls[] = {
#include "control/start/system_calls.def"
};

#undef UROCE_CALL
#undef UROCE_NO_CALL
#undef UROCE_CALL_AMD64
#undef UROCE_CALL_ARM64

constexpr std::uint32_t kNumbersMax = 1'024;  // refused calls are reported once per number
std::atomic<bool> calls_said[kNumbersMax];

const ListedCall* find_call(std::uint32_t number) {
  for (const ListedCall& call : kCalls) {
    if (call.number == number) {
      return &call;
    }
  }
  return nullptr;
}

void say_refused(const char* verdict, int number, const ListedCall* call) {
  char thread[17] = {};
  ::prctl(PR_GET_NAME, thread, 0, 0, 0);
  char line[160];
  // Only numbers and short strings: no locale, no heap.
  const int length =
      std::snprintf(line, sizeof(line),
                    "uroced: thread %s called %s (system call %d), which isn't on its list of "
                    "allowed calls: %s\n",
                    thread, call != nullptr ? call->name : "something", number, verdict);
  if (length > 0) {
    [[maybe_unused]] const ssize_t written =
        ::write(STDERR_FILENO, line, static_cast<std::size_t>(length));
  }
}

// What the call that a SIGSYS stands for returns to its thread.
void set_result(void* context, int result) {
  mcontext_t& registers = static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  registers.gregs[REG_RAX] = result;
#else
  registers.regs[0] = static_cast<std::uint64_t>(std::int64_t{result});
#endif
}

// The call wasn't executed; it returns -EPERM instead.
void on_refused_call(int /*signal*/, siginfo_t* info, void* context) {
  const int number = info->si_syscall;
  const ListedCall* const call = find_call(static_cast<std::uint32_t>(number));
  if (call != nullptr && call->who == CallBy::kNever) {
    say_refused("the daemon ends", number, call);
    (void)::signal(SIGSYS, SIG_DFL);
    ::syscall(SYS_tgkill, ::getpid(), ::gettid(), SIGSYS);
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, SIGSYS);
    ::pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
    ::_exit(128 + SIGSYS);
  }
  const auto place = static_cast<std::uint32_t>(number);
  if (place >= kNumbersMax || !calls_said[place].exchange(true, std::memory_order_relaxed)) {
    say_refused("refused with EPERM", number, call);
  }
  set_result(context, -EPERM);
}

std::uint32_t filter_verdict(CallFilter mode) {
  switch (mode) {
    case CallFilter::kLog:
      return SECCOMP_RET_LOG;
    case CallFilter::kKill:
      return SECCOMP_RET_KILL_PROCESS;
    default:
      return SECCOMP_RET_TRAP;
  }
}

bool is_allowed(const ListedCall& call, CallList list) {
  switch (call.who) {
    case CallBy::kWorker:
      return true;
    case CallBy::kService:
      return list != CallList::kWorker;
    case CallBy::kDriver:
      return list == CallList::kServiceWithDrivers;
    case CallBy::kNever:
      return false;
  }
  return false;
}

// The kernel caches decisions that depend on the number alone, so the length costs nothing.
std::vector<sock_filter> program_for(CallFilter mode, CallList list) {
  constexpr auto kCallArchitecture = static_cast<std::uint32_t>(offsetof(seccomp_data, arch));
  constexpr auto kNumber = static_cast<std::uint32_t>(offsetof(seccomp_data, nr));
  std::vector<sock_filter> program = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kCallArchitecture),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kNumber),
  };
  for (const ListedCall& call : kCalls) {
    if (is_allowed(call, list)) {
      program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call.number, 0, 1));
      program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    }
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, filter_verdict(mode)));
  return program;
}

Status install_filter(CallFilter mode, CallList list, unsigned flags) {
  if (mode == CallFilter::kOff) {
    return ok();
  }
  std::vector<sock_filter> program = program_for(mode, list);
  const sock_fprog all{.len = static_cast<unsigned short>(program.size()),
                       .filter = program.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &all) != 0) {
    return system_error("can't restrict the daemon's system calls (--seccomp off does without)");
  }
  return ok();
}

// The C library opens files of /sys and /proc at a thread's first allocation and when memory is
// first returned, and caches their contents. Done here, since workers may not open files later.
void let_allocator_look() {
  constexpr std::size_t kPiece = std::size_t{64} << 10U;
  std::array<void* volatile, 16> pieces{};
  for (auto& piece : pieces) {
    piece = std::malloc(kPiece);
  }
  for (auto at = pieces.rbegin(); at != pieces.rend(); ++at) {
    std::free(*at);
  }
}

}  // namespace

Status filter_all_threads(CallFilter mode, CallList list) {
  struct sigaction handler {};
  handler.sa_sigaction = on_refused_call;
  handler.sa_flags = SA_SIGINFO | SA_ONSTACK;
  if (mode != CallFilter::kOff && ::sigaction(SIGSYS, &handler, nullptr) != 0) {
    return system_error("can't watch for system calls");
  }
  return install_filter(mode, list, SECCOMP_FILTER_FLAG_TSYNC);
}

Status filter_this_thread(CallFilter mode, CallList list) {
  let_allocator_look();
  return install_filter(mode, list, 0);
}

}  // namespace uroce::control
