#pragma once

// Copies a ring into another one, a bounded number of bytes per step: a ring can have 256 MiB, and
// how much of it is in use is up to its program. Between two steps the old ring stays in use.

#include <algorithm>
#include <cstdint>

namespace uroce {

struct RingResize {
  static constexpr std::uint32_t kStepBytes = 128U << 10U;  // some 20 us

  std::uint32_t next = 0;  // index of the first entry that isn't copied yet
  bool begun = false;

  // Copies up to kStepBytes of the entries in [consumer, producer), each of `size` bytes, by
  // copy(index). True if nothing is left. REQUIRES: the range isn't longer than either ring.
  template <typename Copy>
  bool step(std::uint32_t consumer, std::uint32_t producer, std::uint32_t size, Copy&& copy) {
    const std::uint32_t left = producer - consumer;
    // Entries before the consumer have been used meanwhile, or were never there.
    if (!begun || producer - next > left) {
      begun = true;
      next = consumer;
    }
    const std::uint32_t end = next + std::min(producer - next, kStepBytes / size);
    for (; next != end; ++next) {
      copy(next);
    }
    return next == producer;
  }
};

}  // namespace uroce
