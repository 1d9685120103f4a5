#include "control/reports/watchdog.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>

#include "base/time/monotonic_clock.h"
#include "control/paging/threads.h"

namespace uroce::control {
namespace {

double seconds(Duration duration) {
  return static_cast<double>(duration) / static_cast<double>(kNanosecondsPerSecond);
}

}  // namespace

void Watchdog::watch(std::string name, const Heartbeat& heartbeat, Need need) {
  watched_.push_back({.name = std::move(name), .need = need, .liveness = Liveness(heartbeat)});
}

Status Watchdog::start(std::function<void()> on_alive, Duration interval) {
  on_alive_ = std::move(on_alive);
  alive_interval_ = interval;
  auto started = start_named_thread("uroce-watchdog", [this] { serve(); });
  if (!started) {
    return started.error();
  }
  thread_ = std::move(*started);
  return ok();
}

void Watchdog::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

std::vector<Watchdog::Stuck> Watchdog::stuck() const {
  const std::lock_guard lock(mutex_);
  return stuck_;
}

bool Watchdog::check(Time now) {
  std::vector<Stuck> stuck;
  bool alive = true;
  for (Watched& watched : watched_) {
    const Duration before = std::exchange(watched.stuck, watched.liveness.check(now));
    if (watched.stuck < kStuckAfter) {
      if (std::exchange(watched.said, false)) {
        spdlog::info("{} runs again after it was stuck for {:.1f} s", watched.name,
                     seconds(before));
      }
      continue;
    }
    alive = alive && watched.need != Need::kVital;
    const pid_t thread = watched.liveness.heartbeat().thread();
    const Stuck& now_stuck = stuck.emplace_back(Stuck{.name = watched.name,
                                                      .thread = thread,
                                                      .duration = watched.stuck,
                                                      .doing = describe_activity(thread)});
    if (!std::exchange(watched.said, true)) {
      spdlog::error("{} (thread {}) has been stuck for {:.1f} s: it {}", watched.name, thread,
                    seconds(watched.stuck), now_stuck.doing);
    }
  }
  const std::lock_guard lock(mutex_);
  stuck_ = std::move(stuck);
  return alive;
}

void Watchdog::serve() {
  Time notified = 0;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    const Time now = monotonic_now();
    const bool alive = check(now);
    if (also_) {
      also_();
    }
    if (alive && alive_interval_ != 0 && now - notified >= alive_interval_) {
      notified = now;
      on_alive_();
    }
    lock.lock();
    const Duration pause =
        alive_interval_ == 0 ? kCheckInterval : std::min(kCheckInterval, alive_interval_);
    stop_.wait_for(lock, std::chrono::nanoseconds(pause), [this] { return stopping_; });
  }
}

}  // namespace uroce::control
