#pragma once

// The interfaces between the fault thread and the invalidation thread. Any thread may call; calls
// return at once, and the called thread does the work between two of its turns.

#include <cstdint>
#include <memory>

namespace uroce {
class Mirror;
}

namespace uroce::control {

// The fault thread's interface for the invalidation thread.
class FaultWaiters {
 public:
  virtual ~FaultWaiters() = default;
  // An invalidation of the mirror has ended, or the mirror is closed: waiting faults are retried.
  virtual void retry_faults(const std::shared_ptr<Mirror>& mirror) = 0;
};

// The invalidation thread's interface for the fault thread.
class PageRemover {
 public:
  virtual ~PageRemover() = default;
  // Drops what is known of the range, then calls FaultWaiters::retry_faults.
  virtual void forget(const std::shared_ptr<Mirror>& mirror, std::uint64_t first,
                      std::uint64_t end) = 0;
  // Releases memory until the resident limits hold.
  virtual void reclaim() = 0;
};

}  // namespace uroce::control
