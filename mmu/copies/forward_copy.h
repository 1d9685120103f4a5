#pragma once

// Copies of a few hundred bytes into memory that can vanish, for programs that poll it: on amd64
// each byte is stored once, after all those in front of it (arm64: ordered_copy.h). libc's
// memmove() promises no order, and stores such lengths from the end, or their first bytes last.
//
// As of copy_small(), the SIGBUS handler knows the loads and stores by their place in the program.

#include <cstddef>
#include <span>

namespace uroce {

inline constexpr std::size_t kForwardCopyMin = 64;
// Longer ones stream through the caches, where memmove()'s instructions are faster by a few per
// cent (datapath_bench: direct_64k_of_memcpy). Flags between data are in short messages.
inline constexpr std::size_t kForwardCopyMax = 1'024;

// False if the memory has vanished, and then some of it may have been written. The stores are
// naturally aligned, so that an aligned word of a program is never seen in part.
// REQUIRES: length >= kForwardCopyMin, and the two don't overlap.
[[nodiscard]] bool copy_forward(std::byte* destination, const std::byte* source,
                                std::size_t length);

// The functions that this processor can run, narrowest vectors first. copy_forward() is the last.
using ForwardCopy = bool (*)(std::byte* destination, const std::byte* source, std::size_t length);
[[nodiscard]] std::span<const ForwardCopy> forward_copies();

// For the SIGBUS handler: where the thread goes on that was in copy_forward() at `instruction`;
// nullptr: it wasn't there.
[[nodiscard]] const void* forward_copy_failed(const void* instruction);

}  // namespace uroce
