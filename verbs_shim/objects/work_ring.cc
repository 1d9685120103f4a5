// A queue's ring in memory shared with the daemon.

#include <ctime>

#include "abi/work_request.h"
#include "base/time.h"
#include "verbs_shim/objects/objects.h"

namespace uroce::shim {

int WorkRing::place(const Mapping& memory, const abi::RingLayout& layout) {
  if (layout.entries == 0) {
    return 0;  // no ring: the queue pair uses a shared receive queue
  }
  control = memory.at<abi::RingControl>(layout.control_offset);
  entries =
      memory.at<std::byte>(layout.entries_offset, std::uint64_t{layout.entries} * layout.stride);
  entry_count = layout.entries;
  stride = layout.stride;
  const bool fits = control != nullptr && entries != nullptr && stride % sizeof(abi::Sge) == 0 &&
                    (layout.entries & (layout.entries - 1)) == 0;
  return fits ? 0 : EPROTO;
}

void WorkRing::stamp() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const std::uint32_t first = control->producer.value.load(std::memory_order_relaxed);
  abi::give_stamp(*control, first, producer - first,
                  static_cast<std::uint64_t>(now.tv_sec) * kNanosecondsPerSecond +
                      static_cast<std::uint64_t>(now.tv_nsec));
}

}  // namespace uroce::shim
