#include "mmu/faults/fault_queue.h"

#include "mmu/mirror/mirror.h"

namespace uroce {

PageFault* FaultQueue::take(const FaultRequest& request, const std::shared_ptr<Mirror>& mirror) {
  // Workers that ask at the same time may each find the last place: the bound may be exceeded by a
  // few.
  if (!mirror->fault_quota().has_room(left())) {
    return nullptr;
  }
  PageFault* const fault = ServiceQueue::take(request);
  if (fault != nullptr) {
    mirror->fault_quota().take();
    fault->mirror = mirror;
    fault->counted = true;
  }
  return fault;
}

// The fault is done, and releases what it holds.
void PageFault::release() {
  if (counted) {
    mirror->fault_quota().give_back();
  }
  mirror.reset();
}

}  // namespace uroce
