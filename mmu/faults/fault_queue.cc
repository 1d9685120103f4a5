#include "mmu/faults/fault_queue.h"

#include <algorithm>

#include "mmu/mirror/mirror.h"

namespace uroce {

PageFault* FaultQueue::take(const FaultRequest& request, const std::shared_ptr<Mirror>& mirror) {
  // Workers that ask at the same time may each find the last place: the bound may be exceeded by a
  // few.
  const std::uint32_t used = used_.load(std::memory_order_relaxed);
  if (!mirror->fault_quota().has_room(kRecords - std::min(used, kRecords))) {
    return nullptr;
  }
  PageFault* const fault = ServiceQueue::take(request);
  if (fault != nullptr) {
    used_.fetch_add(1, std::memory_order_relaxed);
    mirror->fault_quota().take();
    fault->mirror = mirror;
    fault->counted = true;
  }
  return fault;
}

void FaultQueue::give_back(PageFault* fault) {
  if (fault->counted) {
    used_.fetch_sub(1, std::memory_order_relaxed);
  }
  ServiceQueue::give_back(fault);
}

// The fault is done, and releases what it holds.
void PageFault::release() {
  if (counted) {
    mirror->fault_quota().give_back();
  }
  mirror.reset();
}

}  // namespace uroce
