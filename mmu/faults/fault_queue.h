#pragma once

// The queue of page faults from workers to the fault thread and back, and statistics of them.

#include <atomic>
#include <cstdint>
#include <functional>

#include "mmu/faults/fault_statistics.h"
#include "mmu/faults/page_fault.h"
#include "mmu/faults/service_queue.h"

namespace uroce {

class FaultQueue final : public ServiceQueue<PageFault, 1'024> {
 public:
  using ServiceQueue::ServiceQueue;

  using ServiceQueue::take;
  // The record of a fault in `mirror`, which holds it until resume(). nullptr when all are in use,
  // or this session or its user has as many as it may (FaultQuota). Workers.
  PageFault* take(const FaultRequest& request, const std::shared_ptr<Mirror>& mirror);

  // Workers. A fault thread that is in the background is put back before others.
  void raise(PageFault* fault) {
    ServiceQueue::raise(fault);
    if (in_background.exchange(false, std::memory_order_relaxed)) {
      raise_priority();
    }
  }
  // The fault thread has given up its priority for a while: `raise_priority` restores it.
  std::atomic<bool> in_background{false};  // relaxed: one who misses it waits for a slice
  std::function<void()> raise_priority;    // set before `in_background`

  // The duration of a fault, smoothed, as measured by the fault thread.
  [[nodiscard]] Duration usual_time() const { return usual_time_.load(std::memory_order_relaxed); }
  void add_duration(Duration time) {
    constexpr Duration kWeight = 8;  // of the past
    usual_time_.store((usual_time() * (kWeight - 1) + time) / kWeight, std::memory_order_relaxed);
  }

  FaultJournal journal;

 private:
  std::atomic<Duration> usual_time_{50 * kNanosecondsPerMicrosecond};  // relaxed: orders nothing
};

}  // namespace uroce
