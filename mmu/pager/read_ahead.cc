#include "mmu/pager/read_ahead.h"

#include <algorithm>

namespace uroce {

ReadAhead::Range ReadAhead::follow(const Mirror* mirror, bool write, const Range& needed,
                                   std::uint64_t limit) {
  ++faults_;
  Stream* oldest = streams_.data();
  for (Stream& stream : streams_) {
    if (stream.mirror == mirror && stream.write == write && needed.first + kBack >= stream.next &&
        needed.first <= stream.brought) {
      stream.used = faults_;
      if (needed.end <= stream.next) {
        return {};  // it was here before
      }
      stream.window = std::clamp(2 * stream.window, kWindowMin, kWindowMax);
      stream.next = needed.end;
      const Range ahead{.first = std::max(needed.end, stream.brought),
                        .end = std::min(stream.next + stream.window, limit)};
      stream.brought = std::max({stream.brought, needed.end, ahead.end});
      return ahead;
    }
    if (stream.used < oldest->used) {
      oldest = &stream;
    }
  }
  *oldest = {.mirror = mirror,
             .write = write,
             .next = needed.end,
             .brought = needed.end,
             .window = 0,
             .used = faults_};
  return {};
}

}  // namespace uroce
