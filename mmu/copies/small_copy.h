#pragma once

// Copies of a few bytes of memory that can vanish. What guarded() takes to remember where to jump
// back to is several times the work of such a copy, so this one is a function of its own whose
// loads and stores the SIGBUS handler knows by their place in the program.

#include <cstddef>

namespace uroce {

inline constexpr std::size_t kSmallCopyMax = 64;

// As memmove(): all is read before anything is written; but each byte is written once, after those
// in front of it. False if the memory has vanished, and then some of it may have been written.
// REQUIRES: 1 <= length <= kSmallCopyMax.
[[nodiscard]] bool copy_small(std::byte* destination, const std::byte* source, std::size_t length);

// For the SIGBUS handler: where the thread goes on that was in copy_small() at `instruction`;
// nullptr: it wasn't there.
[[nodiscard]] const void* small_copy_failed(const void* instruction);

}  // namespace uroce
