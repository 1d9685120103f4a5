#pragma once

// Changes of mappings that nobody announced: bare system calls, as a sanitizer's allocator and Go's
// run-time make them, don't come to the hooks.

#include <cstdint>

namespace uroce::shim {

// Has the daemons forget what they may know wrongly of a range that is about to be registered on
// demand. What still lies at its own place in an arena is right, and stays. Costs a look at the
// mappings where anything near was described before, and a round trip to each daemon for each run
// of memory that lies elsewhere, as shared files always do: peers fault on that anew. REQUIRES:
// nobody changes the range meanwhile.
void announce_unseen(std::uint64_t start, std::uint64_t end);

}  // namespace uroce::shim
