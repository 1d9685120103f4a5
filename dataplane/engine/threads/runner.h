#pragma once

// Runs one worker on one thread: turns, tasks between them, and sleep when idle.
//
// It never sleeps while there is work. A producer publishes the work first and then reads the
// `asleep` flag; the runner sets the flag first and then looks for work. So either the runner sees
// the work, or the producer sees the flag and rings (wakeup.h, abi/doorbell.h). Ports with a wait
// descriptor are armed before that last look; ports without one are polled at short intervals.

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/time/heartbeat.h"
#include "dataplane/engine/threads/cpu_shortage.h"
#include "dataplane/engine/threads/idle_policy.h"
#include "dataplane/engine/threads/mailbox.h"
#include "dataplane/engine/threads/run_delay.h"
#include "dataplane/engine/threads/worker_lock.h"
#include "dataplane/engine/wakeup.h"
#include "dataplane/engine/worker.h"
#include "mmu/quiescence.h"

namespace uroce {

class Runner {
 public:
  struct Config {
    Worker::Config worker{};  // without wakeup
    IdlePolicy idle = IdlePolicy::kAdaptive;
    abi::WorkerStatus* status = nullptr;  // nullptr: not published
  };

  explicit Runner(const Config& config);
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // Whether its descriptors could be created. run() REQUIRES it.
  [[nodiscard]] bool usable() const { return epoll_ >= 0 && wakeup_.descriptor() >= 0; }
  [[nodiscard]] Worker& worker() { return worker_; }
  [[nodiscard]] Mailbox& mailbox() { return mailbox_; }
  [[nodiscard]] Wakeup& wakeup() { return wakeup_; }
  [[nodiscard]] const Heartbeat& heartbeat() const { return heartbeat_; }

  // The worker thread's body: returns after stop().
  void run();
  // Any thread. run() may be called again after it returned.
  void stop();

  // Runs a task as run() would, in the caller's thread. REQUIRES: the worker isn't running.
  void run_here(const std::function<void(Worker&)>& task) noexcept;
  // Runs a task in the caller's thread while the worker sleeps; wakes the worker if the task has
  // created work for it. False: the worker is awake. Any other thread.
  bool run_while_asleep(const std::function<void(Worker&)>& task) noexcept;

 private:
  bool turn(Time now);
  void idle(Time now);
  [[nodiscard]] Duration spin_limit(Time now) const;
  [[nodiscard]] std::uint32_t turns_before_yield(Time now) const;
  void sleep(Time now);
  [[nodiscard]] Duration sleep_limit(Time now) const;
  bool arm_ports();
  void disarm_ports();
  void watch_sessions();
  void watch_ports();
  void forget_ports();

  WorkerLock worker_lock_;  // guards the following, except members for any thread
  abi::WorkerStatus own_status_{};
  Wakeup wakeup_;
  Heartbeat heartbeat_;
  Worker worker_;
  Mailbox mailbox_;
  std::vector<Port*> ports_;
  std::uint16_t queue_;
  Quiescence* quiescence_;
  std::uint32_t index_;
  IdlePolicy policy_;
  int epoll_;
  std::uint64_t watched_changes_ = 0;  // Worker::session_changes() of the last watch_sessions()
  std::uint64_t port_changes_ = 0;     // Worker::port_changes() of the last forget_ports()
  std::vector<int> watched_;           // eventfds of sessions, in epoll_
  std::vector<int> watched_ports_;     // index: port; -1 until it has a descriptor
  bool polls_ports_ = true;            // some port has frames from outside (watch_ports())
  RunDelay run_delay_;
  CpuShortage cpu_shortage_;
  std::uint32_t idle_turns_ = 0;
  Time idle_since_ = 0;
  Time sleeps_until_ = 0;
  // Set by stop() before it wakes the worker, read by run(): relaxed, the wake-up orders it.
  std::atomic<bool> stopping_{false};
};

}  // namespace uroce
