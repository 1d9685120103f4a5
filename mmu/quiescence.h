#pragma once

// Quiescent-state-based reclamation: when may memory that workers read without locks be freed? When
// each worker has, since it was unpublished, ended a turn or gone to sleep. Built on rte_rcu_qsbr,
// which works without the EAL.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "base/time.h"

struct rte_rcu_qsbr;

namespace uroce {

class Quiescence {
 public:
  static constexpr std::uint32_t kWorkersMax = 64;

  // A worker that hasn't passed a quiescent state for this long is stuck, or is blocked in the
  // kernel by a hole in a program's file (Mailbox::kStuckInKernelMax). Only the waiting thread's
  // running time counts (RunningTime).
  static constexpr Duration kTimeout = 10 * kNanosecondsPerSecond;

  explicit Quiescence(std::uint32_t workers_max = kWorkersMax, Duration timeout = kTimeout);
  ~Quiescence();
  Quiescence(const Quiescence&) = delete;
  Quiescence& operator=(const Quiescence&) = delete;

  // Workers, or a thread that runs a task in the place of a sleeping one. online() before the first
  // turn and after sleep; quiescent() once a turn, when no looked-up pointer is held any more;
  // offline() before sleep and at the end.
  void online(std::uint32_t worker);
  void quiescent(std::uint32_t worker);
  void offline(std::uint32_t worker);

  // Any other thread: returns when every online worker has passed a quiescent state since the call.
  // Yields. False: one hasn't within the timeout and may still use what was unpublished, which
  // therefore must not be freed. Until that worker has passed, further calls don't wait for it
  // again.
  [[nodiscard]] bool wait();
  // Called after each wait that timed out, on the waiting thread. Set before the first wait.
  void on_overdue(std::function<void()> callback) { on_overdue_ = std::move(callback); }

  // The same in two steps, for threads that can't wait, including workers: over(begin()), polled
  // repeatedly, becomes true. Several threads may poll; none waits for another, it just gets false.
  [[nodiscard]] std::uint64_t begin() const;
  [[nodiscard]] bool over(std::uint64_t token) const;

 private:
  [[nodiscard]] bool passed(std::uint64_t token) const;

  struct Deleter {
    void operator()(rte_rcu_qsbr* state) const;
  };
  std::unique_ptr<rte_rcu_qsbr, Deleter> state_;
  const Duration timeout_;
  mutable std::mutex checking_;
  std::atomic<std::uint64_t> late_{0};  // token of the last timed-out wait; relaxed: a shortcut
  std::function<void()> on_overdue_;
};

}  // namespace uroce
