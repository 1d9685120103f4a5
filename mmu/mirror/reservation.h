#pragma once

// Mappings of programs' files inside a reservation: addresses that nothing else of the daemon may
// get.

#include <cstddef>

#include "mmu/mirror/mirror.h"

namespace uroce {

// Maps what the piece's file has at `offset` to [at, at + length) of a reservation. False if the
// file can't be mapped (there are many reasons that only its file system knows): then what was
// mapped there still is. REQUIRES: `at` is a multiple of the piece's page size, as is `length`.
//
// mmap(MAP_FIXED) would not do: before the file's own function may fail, the kernel has unmapped
// what was there, and the daemon's next mapping of any kind may get these addresses, as part of
// what a hostile program may discard or write. So the file is mapped elsewhere first, and moved.
bool map_into_reservation(std::byte* at, std::size_t length, const MirrorPiece& piece,
                          std::uint64_t offset);

}  // namespace uroce
