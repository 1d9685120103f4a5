#include "control/start/every_thread.h"

#include <dirent.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <set>
#include <string>
#include <utility>

#include "base/system_error.h"
#include "base/time/liveness.h"

namespace uroce::control {
namespace {

constexpr const char* kCantBeListed = "the daemon's threads can't be listed";
// Per thread, a millisecond each: of one that could have run, and of one that is ready to, but may
// have no processor yet on a busy machine.
constexpr int kPollsMax = 5'000;
constexpr int kPollsOfReadyMax = 60'000;
constexpr timespec kPollInterval{.tv_sec = 0, .tv_nsec = 1'000'000};

// Release and acquire: the task is set before the signal, and counted after it.
std::atomic<void (*)()> thread_task{nullptr};
std::atomic<int> times_done{0};

int task_signal() { return SIGRTMIN + 6; }

void on_task_signal(int /*signal*/) {
  const int code = errno;
  thread_task.load(std::memory_order_acquire)();
  times_done.fetch_add(1, std::memory_order_release);
  errno = code;
}

bool send_signal(pid_t thread, int signal) {
  return ::syscall(SYS_tgkill, ::getpid(), thread, signal) == 0;
}

Status run_on_thread(pid_t thread) {
  const int before = times_done.load(std::memory_order_acquire);
  const auto begin = thread_state(thread);
  if (!send_signal(thread, task_signal())) {
    return ok();  // it has ended
  }
  for (int polls = 0, ready = 0; polls < kPollsMax && ready < kPollsOfReadyMax;) {
    if (times_done.load(std::memory_order_acquire) != before || !send_signal(thread, 0)) {
      return ok();
    }
    ::nanosleep(&kPollInterval, nullptr);
    const auto state = thread_state(thread);
    const bool is_ready =
        begin && state && state->state == 'R' && state->processor_time == begin->processor_time;
    ++(is_ready ? ready : polls);
  }
  return Error{ETIMEDOUT, "thread " + std::to_string(thread) + " takes no signals"};
}

// The threads of this process, except those in `known`. A failure to list them is an error: unknown
// threads would keep the privileges that they are to give up.
Result<std::set<pid_t>> new_threads(const std::set<pid_t>& known) {
  DIR* const folder = ::opendir("/proc/self/task");
  if (folder == nullptr) {
    const Error why = system_error(kCantBeListed);
    return why.code == ENOENT ? Error{ENOENT, why.message + ": /proc must be mounted"} : why;
  }
  std::set<pid_t> found;
  for (;;) {
    errno = 0;
    const dirent* const entry = ::readdir(folder);  // NOLINT(concurrency-mt-unsafe): our own
    if (entry == nullptr) {
      break;
    }
    pid_t thread = 0;
    std::from_chars(entry->d_name, entry->d_name + std::strlen(entry->d_name), thread);
    if (thread != 0 && !known.contains(thread)) {
      found.insert(thread);
    }
  }
  const int failure = errno;
  ::closedir(folder);
  if (failure != 0) {
    errno = failure;
    return system_error(kCantBeListed);
  }
  return Result<std::set<pid_t>>(std::move(found));
}

// Runs the task in all threads, including those started meanwhile.
Status run_on_all_threads() {
  std::set<pid_t> seen{::gettid()};
  for (;;) {
    const auto left = new_threads(seen);
    if (!left) {
      return left.error();
    }
    if (left->empty()) {
      return ok();
    }
    for (const pid_t thread : *left) {
      if (Status done = run_on_thread(thread); !done) {
        return done;
      }
      seen.insert(thread);
    }
  }
}

}  // namespace

Status on_every_thread(void (*task)()) {
  task();
  thread_task.store(task, std::memory_order_release);
  struct sigaction handler {};
  struct sigaction old {};
  handler.sa_handler = on_task_signal;
  handler.sa_flags = SA_RESTART;
  if (::sigaction(task_signal(), &handler, &old) != 0) {
    return system_error("can't reach the daemon's threads");
  }
  Status outcome = run_on_all_threads();
  // A thread that hasn't taken the signal still may, and its default would end the process before
  // it can say why it doesn't start.
  if (outcome) {
    ::sigaction(task_signal(), &old, nullptr);
  }
  return outcome;
}

}  // namespace uroce::control
