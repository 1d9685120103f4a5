#pragma once

// Quiescence: when may memory that workers read without locks be freed? When each worker has, since
// it was unpublished, ended a turn or gone to sleep. Built on rte_rcu_qsbr, which works without the
// EAL.

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

  // A worker that holds what it looked up for so long hangs, or is held in the kernel by a
  // program's hole (Mailbox::kStuckInKernelMax). Only time in which whoever waits ran counts
  // (RunningTime).
  static constexpr Duration kTimeout = 10 * kNanosecondsPerSecond;

  explicit Quiescence(std::uint32_t workers_max = kWorkersMax, Duration timeout = kTimeout);
  ~Quiescence();
  Quiescence(const Quiescence&) = delete;
  Quiescence& operator=(const Quiescence&) = delete;

  // Workers, or who runs a task in the place of one that sleeps. online() before the first turn and
  // after sleep; quiescent() once a turn, when nothing looked up is held any more; offline() before
  // sleep and at the end.
  void online(std::uint32_t worker);
  void quiescent(std::uint32_t worker);
  void offline(std::uint32_t worker);

  // Any other thread: returns when every online worker has passed a quiescent state since the call.
  // Yields. False: one hasn't, for all that timeout, and may still use what was unpublished, which
  // therefore has to stay where it is. Until that one has passed, others aren't waited for again.
  [[nodiscard]] bool wait();
  // Is told of each wait that was in vain, on the thread that waited. Before anybody waits.
  void on_overdue(std::function<void()> tell) { tell_ = std::move(tell); }

  // The same in two steps, for whoever can't wait, workers too: over(begin()), asked again and
  // again, turns true. Several threads may ask; none waits for another, it is told no.
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
  std::atomic<std::uint64_t> late_{0};  // token of the last wait in vain; relaxed: a shortcut
  std::function<void()> tell_;
};

}  // namespace uroce
