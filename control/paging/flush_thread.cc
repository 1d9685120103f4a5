#include "control/paging/flush_thread.h"

#include <poll.h>

#include "control/paging/threads.h"

namespace uroce::control {

Status FlushThread::start() {
  auto started = start_named_thread("uroce-flush", [this] { serve(); });
  if (!started) {
    return started.error();
  }
  thread_ = std::move(*started);
  return ok();
}

void FlushThread::stop() {
  stopping_.store(true, std::memory_order_relaxed);
  queue_.ring();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void FlushThread::serve() {
  pollfd wanted{.fd = queue_.descriptor(), .events = POLLIN, .revents = 0};
  heartbeat_.begin();
  while (!stopping_.load(std::memory_order_relaxed)) {
    heartbeat_.beat();
    while (Flush* const flush = queue_.next()) {
      taken_.push(flush->user, flush);
    }
    if (!taken_.empty()) {
      Flush* const flush = taken_.next();
      flush->outcome = flush->write_back();
      queue_.resume(flush);
      continue;
    }
    queue_.fall_asleep();
    // From here on, raising a flush wakes this thread. Last check before it sleeps.
    heartbeat_.rest();
    ::poll(&wanted, 1, queue_.empty() ? -1 : 0);
    queue_.wake_up();
  }
  heartbeat_.end();
}

}  // namespace uroce::control
