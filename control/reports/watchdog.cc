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

Status Watchdog::start(std::function<void()> tell_alive, Duration interval) {
  tell_alive_ = std::move(tell_alive);
  tell_interval_ = interval;
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

bool Watchdog::look(Time now) {
  std::vector<Stuck> stuck;
  bool alive = true;
  for (Watched& watched : watched_) {
    const Duration before = std::exchange(watched.stuck, watched.liveness.look(now));
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
                                                      .doing = what_it_does(thread)});
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
  Time told = 0;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    const Time now = monotonic_now();
    const bool alive = look(now);
    if (also_) {
      also_();
    }
    if (alive && tell_interval_ != 0 && now - told >= tell_interval_) {
      told = now;
      tell_alive_();
    }
    lock.lock();
    const Duration pause =
        tell_interval_ == 0 ? kLookInterval : std::min(kLookInterval, tell_interval_);
    stop_.wait_for(lock, std::chrono::nanoseconds(pause), [this] { return stopping_; });
  }
}

}  // namespace uroce::control
