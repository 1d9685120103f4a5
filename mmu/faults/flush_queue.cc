#include "mmu/faults/flush_queue.h"

#include <algorithm>

#include "mmu/mirror/mirror.h"
#include "mmu/pinned/durable_memory.h"

namespace uroce {

Access Flush::write_back() const {
  if (mirror == nullptr) {
    return durable->sync(request.address, request.length);
  }
  // Of an implicit region, which covers all memory, the part that a program can use.
  const std::uint64_t first = std::min(request.address, Mirror::kAddressEnd);
  return mirror->sync(first, first + std::min(request.length, Mirror::kAddressEnd - first));
}

}  // namespace uroce
