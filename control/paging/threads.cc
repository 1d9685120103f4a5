#include "control/paging/threads.h"

#include <pthread.h>
#include <sched.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <utility>

namespace uroce::control {
namespace {

constexpr int kFifoPriority = 1;  // the lowest of the real-time ones: above all ordinary threads
constexpr int kNice = -20;

void use_all_processors() {
  cpu_set_t all;
  CPU_ZERO(&all);
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    CPU_SET(cpu, &all);
  }
  // The kernel takes those that this process may use.
  static_cast<void>(::sched_setaffinity(0, sizeof(all), &all));
}

}  // namespace

std::thread start_thread(const char* name, std::function<void()> body) {
  return std::thread([name, body = std::move(body)] {
    ::pthread_setname_np(::pthread_self(), name);
    use_all_processors();
    body();
  });
}

void raise_priority() {
  const sched_param wanted{.sched_priority = kFifoPriority};
  if (::pthread_setschedparam(::pthread_self(), SCHED_FIFO, &wanted) == 0) {
    spdlog::info("page faults are served with real-time priority (SCHED_FIFO {})", kFifoPriority);
  } else if (::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice) == 0) {
    spdlog::info("page faults are served with nice {}: SCHED_FIFO is refused", kNice);
  } else {
    spdlog::info(
        "page faults are served with ordinary priority: SCHED_FIFO and nice {} are refused", kNice);
  }
}

}  // namespace uroce::control
