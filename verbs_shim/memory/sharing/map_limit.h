#pragma once

// vm.max_map_count: the number of mappings that a process may have. Beyond it the program's own
// calls fail (mmap, pthread_create), so the shim leaves most of them to the program.

#include <cstdint>

namespace uroce::shim {

// Read once. Uses no heap.
std::uint64_t maps_max();

}  // namespace uroce::shim
