#pragma once

// The way of page faults from workers to the fault thread and back, and what is known of all of
// them.

#include <atomic>
#include <cstdint>

#include "mmu/fault_statistics.h"
#include "mmu/page_fault.h"
#include "mmu/service_queue.h"

namespace uroce {

class FaultQueue final : public ServiceQueue<PageFault, 1'024> {
 public:
  using ServiceQueue::ServiceQueue;

  // What a fault takes, smoothed, as the fault thread measures it.
  [[nodiscard]] Duration usual_time() const { return usual_time_.load(std::memory_order_relaxed); }
  void took(Duration time) {
    constexpr Duration kWeight = 8;  // of the past
    usual_time_.store((usual_time() * (kWeight - 1) + time) / kWeight, std::memory_order_relaxed);
  }

  FaultJournal journal;

 private:
  std::atomic<Duration> usual_time_{50 * kNanosecondsPerMicrosecond};  // relaxed: orders nothing
};

}  // namespace uroce
