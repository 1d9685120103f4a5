#include "base/time/liveness.h"

#include <fcntl.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/unique_fd.h"

namespace uroce {
namespace {

// The calls in which a thread of ours may be found; others are told by their number.
struct CallName {
  long number;
  const char* name;
};
constexpr std::array kCallNames = {
    CallName{SYS_read, "read"},          CallName{SYS_write, "write"},
    CallName{SYS_close, "close"},        CallName{SYS_fstat, "fstat"},
    CallName{SYS_mmap, "mmap"},          CallName{SYS_munmap, "munmap"},
    CallName{SYS_madvise, "madvise"},    CallName{SYS_ioctl, "ioctl"},
    CallName{SYS_pread64, "pread"},      CallName{SYS_pwrite64, "pwrite"},
    CallName{SYS_sendmsg, "sendmsg"},    CallName{SYS_recvmsg, "recvmsg"},
    CallName{SYS_msync, "msync"},        CallName{SYS_futex, "futex"},
    CallName{SYS_openat, "openat"},      CallName{SYS_fallocate, "fallocate"},
    CallName{SYS_sendto, "sendto"},      CallName{SYS_fsync, "fsync"},
    CallName{SYS_fdatasync, "fdatasync"}};

// Of a thread of this process; empty if it can't be read.
std::string read_file(pid_t thread, const char* name) {
  const std::string path = "/proc/self/task/" + std::to_string(thread) + "/" + name;
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 1024> text;
  const ssize_t length = file.valid() ? ::read(file.get(), text.data(), text.size()) : 0;
  return {text.data(), length > 0 ? static_cast<std::size_t>(length) : 0};
}

}  // namespace

std::optional<ThreadState> thread_state(pid_t thread) {
  // "tid (name) state ppid ... utime stime": the name may hold anything, so from its end on.
  const std::string text = read_file(thread, "stat");
  const std::size_t name_end = text.rfind(')');
  ThreadState state;
  unsigned long user = 0;
  unsigned long system = 0;
  if (name_end == std::string::npos ||
      std::sscanf(text.c_str() + name_end + 1,
                  " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &state.state, &user,
                  &system) != 3) {
    return std::nullopt;
  }
  static const auto tick = kNanosecondsPerSecond / static_cast<Duration>(::sysconf(_SC_CLK_TCK));
  state.processor_time = (user + system) * tick;
  return state;
}

std::string describe_activity(pid_t thread) {
  const auto state = thread_state(thread);
  if (!state) {
    return "is gone";
  }
  if (state->state == 'R') {
    return "runs";
  }
  std::string text = "waits";
  const std::string call = read_file(thread, "syscall");
  if (!call.empty() && call[0] >= '0' && call[0] <= '9') {
    const long number = std::strtol(call.c_str(), nullptr, 10);
    const auto* const named = std::find_if(kCallNames.begin(), kCallNames.end(),
                                           [&](const CallName& c) { return c.number == number; });
    text += " in the system call " + std::to_string(number) +
            (named == kCallNames.end() ? "" : " (" + std::string(named->name) + ")");
  }
  if (const std::string where = read_file(thread, "wchan"); where.size() > 1) {
    text += ", in the kernel's " + where;
  }
  return text + (state->state == 'D' ? " (state D)" : "");
}

Duration Liveness::check(Time now) {
  const std::uint64_t beats = heartbeat_->beats();
  if (beats != beats_ || heartbeat_->resting()) {
    return check(now, std::nullopt);  // it lives: the kernel needn't be asked
  }
  return check(now, thread_state(heartbeat_->thread()));
}

Duration Liveness::check(Time now, const std::optional<ThreadState>& state) {
  const std::uint64_t beats = heartbeat_->beats();
  const Duration since = std::min(now - checked_, kIntervalMax);
  checked_ = now;
  if (beats != beats_ || heartbeat_->resting() || !state) {
    beats_ = beats;
    processor_time_.reset();
    return stuck_ = 0;
  }
  const Duration before = processor_time_.value_or(state->processor_time);
  processor_time_ = state->processor_time;
  stuck_ += state->state == 'R' ? std::min(state->processor_time - before, since) : since;
  return stuck_;
}

}  // namespace uroce
