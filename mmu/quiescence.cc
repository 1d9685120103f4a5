#include "mmu/quiescence.h"

#include <rte_rcu_qsbr.h>
#include <sched.h>

#include <cstdlib>

#include "base/check.h"
#include "base/time/monotonic_clock.h"
#include "base/time/running_time.h"

namespace uroce {

void Quiescence::Deleter::operator()(rte_rcu_qsbr* state) const { std::free(state); }

Quiescence::Quiescence(std::uint32_t workers_max, Duration timeout) : timeout_(timeout) {
  const std::size_t bytes = rte_rcu_qsbr_get_memsize(workers_max);
  state_.reset(static_cast<rte_rcu_qsbr*>(std::aligned_alloc(alignof(rte_rcu_qsbr), bytes)));
  UROCE_CHECK(state_ != nullptr && rte_rcu_qsbr_init(state_.get(), workers_max) == 0);
}

Quiescence::~Quiescence() = default;

void Quiescence::online(std::uint32_t worker) {
  // No effect for a worker that is known; one that never came costs wait() nothing.
  UROCE_CHECK(rte_rcu_qsbr_thread_register(state_.get(), worker) == 0);
  rte_rcu_qsbr_thread_online(state_.get(), worker);
}

void Quiescence::quiescent(std::uint32_t worker) { rte_rcu_qsbr_quiescent(state_.get(), worker); }

void Quiescence::offline(std::uint32_t worker) {
  rte_rcu_qsbr_thread_offline(state_.get(), worker);
}

bool Quiescence::wait() {
  if (const std::uint64_t late = late_.load(std::memory_order_relaxed);
      late != 0 && !passed(late)) {
    return false;
  }
  const std::uint64_t token = begin();
  RunningTime time;
  const Duration end = time.update(monotonic_now()) + timeout_;
  while (!over(token)) {
    if (time.update(monotonic_now()) > end) {
      late_.store(token, std::memory_order_relaxed);
      if (on_overdue_) {
        on_overdue_();
      }
      return false;
    }
    sched_yield();  // on a small machine the worker may need this core
  }
  return true;
}

bool Quiescence::passed(std::uint64_t token) const {
  const std::lock_guard lock(checking_);
  return rte_rcu_qsbr_check(state_.get(), token, false) != 0;
}

std::uint64_t Quiescence::begin() const { return rte_rcu_qsbr_start(state_.get()); }

// A thread may get this result because another one has seen it: rte_rcu_qsbr_check() remembers the
// last acknowledged token, but orders nothing by it. The mutex passes on what that thread saw.
bool Quiescence::over(std::uint64_t token) const {
  const std::unique_lock lock(checking_, std::try_to_lock);
  return lock.owns_lock() && rte_rcu_qsbr_check(state_.get(), token, false) != 0;
}

}  // namespace uroce
