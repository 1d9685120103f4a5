#pragma once

// `uroce addr`: the addresses of the daemon's devices.

#include <string>

namespace uroce {

// Each returns the exit status: 0, or 1 after a line on stderr. An empty device: the first one.
int list_addresses();
int change_address(const std::string& device, const std::string& prefix, bool add);

}  // namespace uroce
