#pragma once

// What the kernel heard of datagrams that didn't arrive (IP_RECVERR): nobody listens there, no such
// host, no way, too long for the path. It comes as the ICMP message that it was, so that everybody
// behind the port sees what a port on a wire would have brought.

#include <cstdint>

#include "dataplane/port/frame_pool.h"
#include "dataplane/wire/address.h"

namespace uroce {

// Up to `max` frames out of the pool, from the error queue of a socket that is bound to `address`.
// Fewer than asked: the queue or the pool is empty, or what was in it is no news of a way.
std::uint32_t take_udp_errors(int descriptor, const Gid& address, FramePool& pool, Frame** frames,
                              std::uint32_t max);

}  // namespace uroce
