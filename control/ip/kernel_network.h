#pragma once

// What the kernel's own network has to do with a port: the interface that carries the port's
// address, and keeping the kernel from answering RoCE packets itself.

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "dataplane/wire/address.h"

namespace uroce::control {

// The index of the kernel interface that has this address; 0: none has.
std::uint32_t interface_with(const Gid& address);

// Where the kernel owns the address, it answers UDP 4791 with "port unreachable", which peers would
// take to heart. A bound socket that nobody reads keeps it silent. Invalid where the kernel doesn't
// own the address (nothing to do); an error where somebody else holds it, who takes this address's
// packets, too, if they come to the kernel.
Result<UniqueFd> hold_roce_port(const Gid& address);

}  // namespace uroce::control
