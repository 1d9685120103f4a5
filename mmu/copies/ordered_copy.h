#pragma once

// Copies into memory that threads of a program may be polling.
//
// The specification promises a polling program nothing, but cards write in order, and programs rely
// on it: that a message's bytes are there before those of a later one (a flag behind the data), and
// before the message's own last byte. Processors of amd64 show a thread's stores to others in
// order, and copy_small() and copy_mapped() store in ascending order there. Those of arm64 don't:
// what was stored before comes first, and the last bytes, at most 8, come last and once; each of
// the two costs a barrier between stores, which nothing waits for.

#include <bit>
#include <cstddef>

#include "mmu/copies/copy.h"
#include "mmu/copies/small_copy.h"

namespace uroce {

#if defined(__x86_64__)

// As copy_small(), for at most kSmallCopyMax bytes, and copy_mapped().
[[nodiscard]] inline bool copy_small_in_order(std::byte* destination, const std::byte* source,
                                              std::size_t length) {
  return copy_small(destination, source, length);
}
[[nodiscard]] inline bool copy_mapped_in_order(std::byte* destination, const std::byte* source,
                                               std::size_t length) {
  return copy_mapped(destination, source, length);
}

#else

inline void order_stores() { asm volatile("dmb ishst" : : : "memory"); }

// `copy` copies what comes before the last bytes, which are one store: 8 bytes, or fewer of a
// message that isn't longer. These are read first, because the ranges may overlap.
template <typename Copy>
[[nodiscard]] bool copy_in_order(std::byte* destination, const std::byte* source,
                                 std::size_t length, Copy&& copy) {
  constexpr std::size_t kLastMax = 8;
  const std::size_t last_bytes = length >= kLastMax            ? kLastMax
                                 : std::has_single_bit(length) ? length
                                                               : 1;
  order_stores();
  if (length <= last_bytes) {
    return copy(destination, source, length);
  }
  const std::size_t before = length - last_bytes;
  std::byte last[kLastMax];
  if (!copy_small(last, source + before, last_bytes) || !copy(destination, source, before)) {
    return false;
  }
  order_stores();
  return copy_small(destination + before, last, last_bytes);
}

[[nodiscard]] inline bool copy_small_in_order(std::byte* destination, const std::byte* source,
                                              std::size_t length) {
  return copy_in_order(destination, source, length, copy_small);
}
[[nodiscard]] inline bool copy_mapped_in_order(std::byte* destination, const std::byte* source,
                                               std::size_t length) {
  return copy_in_order(destination, source, length, copy_mapped);
}

#endif

}  // namespace uroce
