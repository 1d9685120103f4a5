#pragma once

// Lists the addresses of a kernel interface by rtnetlink, which needs no privilege.

#include <string>
#include <vector>

#include "base/result.h"
#include "control/ip/gid_table.h"

namespace uroce::control {

// IPv4 first, then IPv6, link-local ones last; kGidsMax - 1 at most. Tentative addresses (duplicate
// address detection) are left out. ENODEV; EADDRNOTAVAIL: it has none.
Result<std::vector<IpPrefix>> interface_addresses(const std::string& name);

}  // namespace uroce::control
