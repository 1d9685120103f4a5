// A queue's ring in the memory that the daemon shares.

#include "abi/work_request.h"
#include "verbs_shim/objects/objects.h"

namespace uroce::shim {

int WorkRing::place(const Mapping& memory, const abi::RingLayout& layout) {
  if (layout.entries == 0) {
    return 0;  // none: a queue pair with a shared receive queue has none of its own
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

}  // namespace uroce::shim
