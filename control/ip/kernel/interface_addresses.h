#pragma once

// Lists the addresses of a kernel interface by rtnetlink, which needs no privilege.

#include <string>
#include <vector>

#include "base/result.h"
#include "control/ip/addresses/gid_table.h"

namespace uroce::control {

// IPv4 first, then IPv6, link-local ones last; kGidsMax - 1 at most. Tentative addresses (duplicate
// address detection) are left out. ENODEV: no such interface; EADDRNOTAVAIL: it has none. Others:
// it isn't known which it has.
Result<std::vector<IpPrefix>> interface_addresses(const std::string& name);

}  // namespace uroce::control
