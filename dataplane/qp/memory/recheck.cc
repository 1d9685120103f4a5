#include "dataplane/qp/memory/recheck.h"

#include "dataplane/qp/memory/memory_parts.h"
#include "mmu/mirror/mirror.h"

namespace uroce {
namespace {

// The same of a part of memory that is paged on demand. While its pages are resident, and until the
// worker's turn ends, no invalidation of them is answered, and from then on none before the copy is
// done. So it is enough to look back.
Access recheck_pages(const MemoryScope& scope, const MemoryPart& part, std::uint64_t changes,
                     bool waits) {
  std::size_t done = 0;
  while (done < part.length) {
    const std::uint64_t address = part.address + done;
    Span span;
    Access access = part.region.translate(address, part.length - done, true, &span);
    if (access == Access::kGranted) {
      done += span.length;
    } else if (access == Access::kNotResident && waits) {
      access = fault(scope, part, address, true);
    }
    if (access != Access::kGranted) {
      return access;
    }
  }
  const std::uint64_t first = part.region.program_address(part.address);
  return part.region.mirror()->emptied(changes, first, first + part.length) ? Access::kLost
                                                                            : Access::kGranted;
}

}  // namespace

Access recheck(const MemoryScope& scope, const ProcMemCopy& collected, bool waits) {
  for (const ProcMemCopy::Segment& segment : collected.segments) {
    const Region* region = nullptr;
    Access access = scope.keys.check(segment.key, scope.pd, 0, 0, kAccessLocalWrite, &region);
    if (access != Access::kGranted) {
      return access;
    }
    const std::uint64_t distance = segment.address - region->program_address(region->iova());
    if (distance >= region->length() || segment.length > region->length() - distance) {
      return Access::kOutOfRange;
    }
    if (region->mirror() != nullptr) {
      access = recheck_pages(scope, {*region, region->iova() + distance, segment.length},
                             segment.changes, waits);
      if (access != Access::kGranted) {
        return access;
      }
    }
  }
  return Access::kGranted;
}

}  // namespace uroce
