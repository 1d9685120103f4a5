#pragma once

// A thread's sign of life: one store per turn, read by a watchdog (base/time/liveness.h). Between
// beats the thread works; after rest() it waits for work, for any length of time.

#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace uroce {

class alignas(64) Heartbeat {
 public:
  // The thread itself. begin() says which one it is; before that, and after end(), there is none.
  void begin() {
    thread_.store(::gettid(), std::memory_order_relaxed);
    beat();
  }
  void beat() { beats_.store(count_ += 2, std::memory_order_relaxed); }
  void rest() { beats_.store(count_ | kResting, std::memory_order_relaxed); }
  void end() {
    rest();
    thread_.store(0, std::memory_order_relaxed);
  }

  // Any thread. Another value than before: it has lived since.
  [[nodiscard]] std::uint64_t beats() const { return beats_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool resting() const { return (beats() & kResting) != 0; }
  [[nodiscard]] pid_t thread() const { return thread_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::uint64_t kResting = 1;

  std::uint64_t count_ = 0;  // the thread's own
  // Relaxed: they order nothing, and who watches looks again later.
  std::atomic<std::uint64_t> beats_{kResting};
  std::atomic<pid_t> thread_{0};
};

}  // namespace uroce
