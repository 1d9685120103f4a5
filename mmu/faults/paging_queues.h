#pragma once

// The queues of the roles that wait for memory: to the fault thread and to the flush thread.

#include <cstdint>
#include <functional>

#include "mmu/faults/fault_queue.h"
#include "mmu/faults/flush_queue.h"

namespace uroce {

struct PagingQueues {
  // `wake_worker`: wakes a worker after a record was returned to it.
  PagingQueues(std::uint32_t workers, const std::function<void(std::uint32_t worker)>& wake_worker)
      : faults(workers), flushes(workers) {
    faults.wake_worker = wake_worker;
    flushes.wake_worker = wake_worker;
  }

  [[nodiscard]] bool has_resumed(std::uint32_t worker) const {
    return faults.has_resumed(worker) || flushes.has_resumed(worker);
  }

  FaultQueue faults;
  FlushQueue flushes;
};

}  // namespace uroce
