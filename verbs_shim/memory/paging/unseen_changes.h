#pragma once

// Changes of mappings that weren't announced: direct system calls, as made by a sanitizer's
// allocator and Go's run-time, bypass the hooks.

#include <cstdint>

namespace uroce::shim {

// Invalidates possibly stale knowledge of the daemons about a range that is about to be registered
// on demand. Memory that is still at its own place in an arena is known correctly and stays. If
// anything near was described before, costs a look-up of the mappings, and a round trip to each
// daemon for each run of other memory, which always includes shared files: peers fault on it again.
// REQUIRES: no thread changes the range meanwhile.
void announce_unseen(std::uint64_t start, std::uint64_t end);

}  // namespace uroce::shim
