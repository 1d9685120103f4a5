// A queue's ring in memory shared with the daemon.

#include <bit>

#include "abi/work_request.h"
#include "base/time/monotonic_clock.h"
#include "verbs_shim/objects/objects.h"

namespace uroce::shim {

int WorkRing::place(const Mapping& memory, const abi::RingLayout& layout) {
  if (layout.entries == 0) {
    return 0;  // no ring: the queue pair uses a shared receive queue
  }
  auto* const head = memory.at<abi::RingControl>(layout.control_offset);
  auto* const first =
      memory.at<std::byte>(layout.entries_offset, std::uint64_t{layout.entries} * layout.stride);
  if (head == nullptr || first == nullptr || layout.stride % sizeof(abi::Sge) != 0 ||
      !std::has_single_bit(layout.entries)) {
    return EPROTO;
  }
  control = head;
  entries = first;
  entry_count = layout.entries;
  stride = layout.stride;
  return 0;
}

void WorkRing::stamp() {
  const std::uint32_t first = control->producer.value.load(std::memory_order_relaxed);
  abi::give_stamp(*control, first, producer - first, monotonic_now());
}

}  // namespace uroce::shim
