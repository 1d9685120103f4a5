#pragma once

// The way of page faults from workers to the fault thread and back: a fixed number of records, all
// allocated at the start, in lock-free queues. A worker that finds none left parks all the same and
// tries again when one comes back.

#include <atomic>
#include <boost/lockfree/queue.hpp>
#include <boost/lockfree/spsc_queue.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "mmu/fault_statistics.h"
#include "mmu/page_fault.h"

namespace uroce {

class FaultQueue {
 public:
  static constexpr std::uint32_t kRecords = 1'024;
  // Flushes that wait for slow disks leave the rest of the records to page faults.
  static constexpr std::uint32_t kFlushesMax = kRecords / 2;

  explicit FaultQueue(std::uint32_t workers);
  ~FaultQueue();
  FaultQueue(const FaultQueue&) = delete;
  FaultQueue& operator=(const FaultQueue&) = delete;

  // Workers. take() gives nullptr when all records are in use, or all that flushes may have.
  // raise() wakes the fault thread. REQUIRES: from take() to give_back() the request stays.
  PageFault* take(const FaultRequest& request);
  void raise(PageFault* fault);
  PageFault* next_resumed(std::uint32_t worker);
  [[nodiscard]] bool has_resumed(std::uint32_t worker) const;
  void give_back(PageFault* fault);

  // The fault thread. resume() hands a fault back to the worker that raised it, and wakes that.
  PageFault* next();
  [[nodiscard]] bool empty() const { return raised_.empty(); }
  void resume(PageFault* fault);

  // What a fault takes, smoothed, as the fault thread measures it.
  [[nodiscard]] Duration usual_time() const { return usual_time_.load(std::memory_order_relaxed); }
  void took(Duration time);

  // Sleeping: the fault thread says so, looks once more, and waits for descriptor() to become
  // readable.
  void fall_asleep() { asleep_.exchange(true, std::memory_order_seq_cst); }
  void wake_up();
  void ring();  // any thread
  [[nodiscard]] int descriptor() const { return descriptor_; }

  FaultJournal journal;

  // How to wake a worker after it was given something. Set before the first fault.
  std::function<void(std::uint32_t worker)> wake_worker;

 private:
  template <std::size_t kCapacity>
  using Queue = boost::lockfree::queue<PageFault*, boost::lockfree::capacity<kCapacity>>;
  using Resumed = boost::lockfree::spsc_queue<PageFault*, boost::lockfree::capacity<kRecords>>;

  std::vector<PageFault> records_{kRecords};
  Queue<kRecords + 1> free_;
  Queue<kRecords + 1> raised_;
  std::atomic<std::uint32_t> flushes_{0};  // records in use for them; relaxed: orders nothing
  std::vector<std::unique_ptr<Resumed>> resumed_;  // index: worker; one producer, the fault thread
  // Set by the fault thread before its last look at raised_, read by a modification after something
  // was raised: one of the two sees the other (as engine/wakeup.h).
  std::atomic<bool> asleep_{false};
  int descriptor_;                                                     // eventfd
  std::atomic<Duration> usual_time_{50 * kNanosecondsPerMicrosecond};  // relaxed: orders nothing
};

}  // namespace uroce
