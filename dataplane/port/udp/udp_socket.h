#pragma once

// The sockets of a udp port: for each address of the port one per worker, bound to UDP port 4791.

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "dataplane/wire/address.h"

namespace uroce {

// `count` sockets that share the address; the kernel passes a datagram to the one whose index is
// the destination queue pair's number modulo `count`, that is, its owner's. `scope`: index of the
// interface. EADDRNOTAVAIL and EADDRINUSE have a message that says what to do.
Result<std::vector<UniqueFd>> open_udp_sockets(const Gid& address, std::uint32_t scope,
                                               std::uint16_t count);

}  // namespace uroce
