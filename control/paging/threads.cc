#include "control/paging/threads.h"

#include <pthread.h>
#include <sched.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <utility>

#include "base/all_processors.h"
#include "base/start_thread.h"

namespace uroce::control {
namespace {

constexpr int kFifoPriority = 1;  // the lowest of the real-time ones: above all ordinary threads
constexpr int kNice = -20;

}  // namespace

Result<std::thread> start_named_thread(const char* name, std::function<void()> body) {
  return start_thread(name, [name, body = std::move(body)] {
    ::pthread_setname_np(::pthread_self(), name);
    use_all_processors();
    body();
  });
}

bool Priority::set(Way way) const {
  const sched_param fifo{.sched_priority = kFifoPriority};
  const sched_param ordinary{.sched_priority = 0};
  switch (way) {
    case Way::kFifo:
      return ::sched_setscheduler(thread_, SCHED_FIFO, &fifo) == 0;
    case Way::kNice:
      return ::setpriority(PRIO_PROCESS, static_cast<id_t>(thread_), kNice) == 0;
    case Way::kNone:
      break;
  }
  return way_ == Way::kFifo ? ::sched_setscheduler(thread_, SCHED_OTHER, &ordinary) == 0
                            : ::setpriority(PRIO_PROCESS, static_cast<id_t>(thread_), 0) == 0;
}

void Priority::begin() {
  thread_ = ::gettid();
  if (set(Way::kFifo)) {
    way_ = Way::kFifo;
    spdlog::info("page faults are served with real-time priority (SCHED_FIFO {})", kFifoPriority);
  } else if (set(Way::kNice)) {
    way_ = Way::kNice;
    spdlog::info("page faults are served with nice {}: SCHED_FIFO is refused", kNice);
  } else {
    spdlog::info(
        "page faults are served with ordinary priority: SCHED_FIFO and nice {} are refused", kNice);
  }
}

void Priority::raise() const {
  if (way_ != Way::kNone) {
    (void)set(way_);
  }
}

void Priority::lower() const {
  if (way_ != Way::kNone) {
    (void)set(Way::kNone);
  }
}

}  // namespace uroce::control
