#pragma once

// Finds the kernel interface that carries a port's address, and keeps the kernel from answering
// RoCE packets itself.

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "dataplane/wire/address.h"

namespace uroce::control {

// The index of the kernel interface that has this address; 0: none has.
std::uint32_t interface_with(const Gid& address);

// If the kernel owns the address, it answers UDP 4791 with "port unreachable", and peers would give
// up. A bound socket that is never read prevents that. An invalid descriptor if the kernel doesn't
// own the address (nothing to do); an error if another process has bound the port, since it would
// get this address's packets.
Result<UniqueFd> bind_roce_socket(const Gid& address);

}  // namespace uroce::control
