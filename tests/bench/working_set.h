#pragma once

// The memory that a benchmark goes through, which must be there before time is taken: the host of a
// virtual machine takes back pages that lie idle while something else is measured, and to get one
// again costs as much as a hundred messages.

#include <cstddef>
#include <span>

namespace uroce::bench {

// Writes to each page of it, and changes nothing.
inline void bring_in(std::span<std::byte> memory) {
  constexpr std::size_t kPageBytes = 4096;
  for (std::size_t at = 0; at < memory.size(); at += kPageBytes) {
    volatile std::byte& byte = memory[at];
    byte = byte;
  }
}

}  // namespace uroce::bench
