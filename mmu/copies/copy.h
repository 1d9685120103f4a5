#pragma once

// Copies between spans of registered memory and the daemon's own buffers. A span can vanish at any
// moment (a file is truncated, a program dies), so every access goes through here: a SIGBUS in the
// middle becomes `false`.

#include <cstddef>
#include <cstdint>

#include "mmu/copies/copy_guard.h"  // IWYU pragma: export (guarded)
#include "mmu/region.h"

namespace uroce {

// Installs the SIGBUS handler, once a process, before the first copy.
void install_copy_guard();

// Copies out of (read) or into (write) the program's memory, whichever way the span is reached;
// what is mapped is written in order (ordered_copy.h).
[[nodiscard]] bool copy_from(const Region& region, const Span& source, std::byte* destination);
[[nodiscard]] bool copy_to(const Region& region, const Span& destination, const std::byte* source);

// The same between bytes that are mapped; either may be a program's, and they may overlap. A
// program that polls the destination sees up to kForwardCopyMax bytes in order, each
// once; of more than that, the last kForwardCopyMin bytes after all others. Where the two overlap,
// no order is promised.
[[nodiscard]] bool copy_mapped(std::byte* destination, const std::byte* source, std::size_t length);

// 64-bit atomics on 8 bytes of a span, host order. Atomic against other queue pairs of this
// daemon, and where the span is mapped also against the program's processor. *original: the value
// before. REQUIRES: span.length >= 8, remote_address and host 8-aligned.
[[nodiscard]] bool compare_and_swap(const Region& region, const Span& span, std::uint64_t compare,
                                    std::uint64_t swap, std::uint64_t* original);
[[nodiscard]] bool fetch_and_add(const Region& region, const Span& span, std::uint64_t add,
                                 std::uint64_t* original);

// The same on a word of a program that is reached through the file `memory`; atomic only against
// what holds the same lock, and the program may let them wait (proc_mem/proc_mem_thread.h).
[[nodiscard]] bool swap_program_word(int memory, std::uint64_t address, std::uint64_t compare,
                                     std::uint64_t swap, std::uint64_t* original);
[[nodiscard]] bool add_program_word(int memory, std::uint64_t address, std::uint64_t add,
                                    std::uint64_t* original);

// Stores 8 bytes at once. REQUIRES: as for the atomics.
[[nodiscard]] bool store_word(const Region& region, const Span& span, std::uint64_t value);

}  // namespace uroce
