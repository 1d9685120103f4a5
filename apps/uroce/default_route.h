#pragma once

// The interface that leads out of this machine.

#include <string>

namespace uroce {

// Of the default route of IPv4 with the least metric, else of IPv6's. Empty: there is none.
std::string default_route_interface();

}  // namespace uroce
