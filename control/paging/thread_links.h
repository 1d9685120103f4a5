#pragma once

// The interfaces between the fault thread and the invalidation thread. Any thread may call; calls
// return at once, and the called thread does the work between two of its turns.

#include <cstdint>
#include <memory>

namespace uroce {
class Mirror;
}

namespace uroce::control {

// The fault thread, as the invalidation thread sees it.
class FaultWaiters {
 public:
  virtual ~FaultWaiters() = default;
  // An invalidation of the mirror is over, or the mirror is closed: faults that wait look again.
  virtual void look_again(const std::shared_ptr<Mirror>& mirror) = 0;
};

// The invalidation thread, as the fault thread sees it: the one that may wait for workers.
class PageRemover {
 public:
  virtual ~PageRemover() = default;
  // What the program said of the range is forgotten; then FaultWaiters::look_again.
  virtual void forget(const std::shared_ptr<Mirror>& mirror, std::uint64_t first,
                      std::uint64_t end) = 0;
  // More is resident than the limits say: memory is to be given back.
  virtual void reclaim() = 0;
};

}  // namespace uroce::control
