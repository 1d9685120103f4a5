#pragma once

// The flush thread: has written to disk what FLUSHes ask for, one after the other, and hands them
// back to their workers. It alone waits for disks: neither faults nor invalidations do.

#include <atomic>
#include <thread>

#include "base/result.h"
#include "base/time/heartbeat.h"
#include "mmu/faults/flush_queue.h"

namespace uroce::control {

class FlushThread {
 public:
  explicit FlushThread(FlushQueue& queue) : queue_(queue) {}
  FlushThread(const FlushThread&) = delete;
  FlushThread& operator=(const FlushThread&) = delete;

  Status start();
  // Returns when the flush in hand is over; those that wait stay in the queue.
  void stop();
  [[nodiscard]] const Heartbeat& heartbeat() const { return heartbeat_; }

 private:
  void serve();

  FlushQueue& queue_;
  Heartbeat heartbeat_;
  std::atomic<bool> stopping_{false};  // relaxed: the queue's ring orders it
  std::thread thread_;
};

}  // namespace uroce::control
