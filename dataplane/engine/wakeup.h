#pragma once

// How other threads of the daemon (control, other workers) wake a worker that sleeps.

#include <atomic>
#include <cstdint>

#include "abi/doorbell.h"
#include "base/event_fd.h"

namespace uroce {

class Wakeup {
 public:
  // `status`: the page that programs see too; it outlives this.
  explicit Wakeup(abi::WorkerStatus* status) : status_(status) {}
  Wakeup(const Wakeup&) = delete;
  Wakeup& operator=(const Wakeup&) = delete;

  // Any thread, after it has published work for the worker: makes a system call only if the worker
  // sleeps. Reads the flag by a read-modify-write, as fall_asleep() sets it: whichever comes first
  // in the flag's modification order, either this thread sees the flag, or the worker, which looks
  // for work after setting it, sees the work.
  void wake() {
    if (status_->asleep.fetch_or(0, std::memory_order_acq_rel) != 0) {
      ring();
    }
  }
  void ring() { event_.ring(); }

  // The worker. After fall_asleep() it looks for work once more before it blocks on descriptor().
  // Sequentially consistent: also pairs with the doorbell of programs and their load of `asleep`
  // (abi/doorbell.h).
  void fall_asleep() { status_->asleep.exchange(1, std::memory_order_seq_cst); }
  void wake_up() { status_->asleep.store(0, std::memory_order_relaxed); }

  // The worker, for programs (abi::WorkerStatus): whether it is short of a processor, and whether
  // it shares it with other threads.
  void publish_load(bool crowded, bool shared) {
    publish(status_->crowded, crowded);
    publish(status_->shared, shared);
  }
  // The worker, for programs that wake it: a turn begins, or the worker is about to block
  // (base/time/heartbeat.h). REQUIRES: an odd value between fall_asleep() and blocking, and a new
  // even value before the next fall_asleep().
  void publish_beats(std::uint64_t beats) {
    status_->beats.store(beats, std::memory_order_relaxed);
  }
  // REQUIRES: watched edge-triggered. Nobody reads it.
  [[nodiscard]] int descriptor() const { return event_.get(); }

 private:
  static void publish(std::atomic<std::uint32_t>& flag, bool is) {
    const std::uint32_t value = is ? 1 : 0;
    if (flag.load(std::memory_order_relaxed) != value) [[unlikely]] {
      flag.store(value, std::memory_order_relaxed);
    }
  }

  abi::WorkerStatus* status_;
  EventFd event_;
};

}  // namespace uroce
