#pragma once

// The flush thread: writes to disk what RDMA FLUSH requests ask for, one after the other and the
// users in turn, and returns them to their workers. Only this thread waits for disks; faults and
// invalidations never do.

#include <atomic>
#include <cstdint>
#include <thread>

#include "base/result.h"
#include "base/time/heartbeat.h"
#include "mmu/faults/flush_queue.h"
#include "mmu/pager/fair_queue.h"

namespace uroce::control {

class FlushThread {
 public:
  explicit FlushThread(FlushQueue& queue) : queue_(queue) {}
  FlushThread(const FlushThread&) = delete;
  FlushThread& operator=(const FlushThread&) = delete;

  Status start();
  // Returns when the current flush is done; others stay in the queue.
  void stop();
  [[nodiscard]] const Heartbeat& heartbeat() const { return heartbeat_; }

 private:
  void serve();

  FlushQueue& queue_;
  FairQueue<Flush*, std::uint64_t> taken_;  // out of it, by Flush::user
  Heartbeat heartbeat_;
  std::atomic<bool> stopping_{false};  // relaxed: the queue's ring orders it
  std::thread thread_;
};

}  // namespace uroce::control
