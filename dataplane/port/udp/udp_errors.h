#pragma once

// The kernel's reports of undelivered datagrams (IP_RECVERR): port or host unreachable, no route,
// too long for the path. They are converted back into ICMP messages, so that the code above the
// port sees the same as with a port on a wire.

#include <cstdint>

#include "dataplane/port/frame_pool.h"
#include "dataplane/wire/address.h"

namespace uroce {

// Reads the error queue of a socket bound to `address` into up to `max` frames of the pool. Fewer:
// the queue or the pool is empty, or an error wasn't about a path.
std::uint32_t take_udp_errors(int descriptor, const Gid& address, FramePool& pool, Frame** frames,
                              std::uint32_t max);

}  // namespace uroce
