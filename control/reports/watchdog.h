#pragma once

// Watches the daemon's essential threads. One that is stuck (base/time/liveness.h) for kStuckAfter
// is reported, with what it waits for, once in the log and in `uroce status` while it lasts; the
// service manager is notified only while no vital thread is stuck. Runs in a thread of its own,
// which depends on none of the others.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "base/time/heartbeat.h"
#include "base/time/liveness.h"

namespace uroce::control {

class Watchdog {
 public:
  static constexpr Duration kStuckAfter = 2 * kNanosecondsPerSecond;
  static constexpr Duration kCheckInterval = 250 * kNanosecondsPerMillisecond;

  enum class Need : std::uint8_t {
    kVital,     // without it no program is served
    kMayBeLate  // it legitimately waits for disks: reported, but no reason to end the daemon
  };

  Watchdog() = default;
  ~Watchdog() { stop(); }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Before start(). The heartbeat outlives the watchdog's stop().
  void watch(std::string name, const Heartbeat& heartbeat, Need need = Need::kVital);
  // Before start(). `also` runs at each check, in the watchdog thread.
  void at_each_check(std::function<void()> also) { also_ = std::move(also); }
  // `on_alive`: called every `interval` (0: never) while no vital thread is stuck.
  Status start(std::function<void()> on_alive = {}, Duration interval = 0);
  void stop();

  struct Stuck {
    std::string name;
    pid_t thread = 0;
    Duration duration = 0;
    std::string doing;  // describe_activity()
  };
  // The threads that are stuck now. Callable from any thread.
  [[nodiscard]] std::vector<Stuck> stuck() const;

  // Checks all threads; true if no vital one is stuck. Called by the watchdog thread, or a test.
  bool check(Time now);

 private:
  struct Watched {
    std::string name;
    Need need;
    Liveness liveness;
    Duration stuck = 0;
    bool said = false;
  };
  void serve();

  std::vector<Watched> watched_;  // used by the watchdog thread only after start()
  std::function<void()> on_alive_, also_;
  Duration alive_interval_ = 0;
  mutable std::mutex mutex_;  // of what follows
  std::vector<Stuck> stuck_;
  bool stopping_ = false;
  std::condition_variable stop_;
  std::thread thread_;
};

}  // namespace uroce::control
