#pragma once

// The memory that a benchmark walks through, which must be resident before the measurement: the
// host of a virtual machine reclaims pages that are idle while something else is measured, and
// getting one back costs as much as a hundred messages.

#include <cstddef>
#include <span>

namespace uroce::bench {

// Writes to each of its pages, without changing the contents.
inline void prefault(std::span<std::byte> memory) {
  constexpr std::size_t kPageBytes = 4096;
  for (std::size_t at = 0; at < memory.size(); at += kPageBytes) {
    volatile std::byte& byte = memory[at];
    byte = byte;
  }
}

}  // namespace uroce::bench
