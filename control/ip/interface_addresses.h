#pragma once

// The addresses of an interface of this machine, asked of the kernel by rtnetlink, which needs no
// right.

#include <string>
#include <vector>

#include "base/result.h"
#include "control/ip/gid_table.h"

namespace uroce::control {

// IPv4 first, then IPv6, link-local ones last; kGidsMax - 1 at most. Without those that can't be
// used yet (duplicate address detection). ENODEV, EADDRNOTAVAIL: it has none.
Result<std::vector<IpPrefix>> interface_addresses(const std::string& name);

}  // namespace uroce::control
