#pragma once

// `uroce addr`: the addresses of the daemon's devices.

#include <string>

namespace uroce {

// Each returns the exit status: 0, or 1 after a line on stderr. An empty device: all of them are
// listed, the first one is changed.
int list_addresses(const std::string& device);
int change_address(const std::string& device, const std::string& prefix, bool add);

}  // namespace uroce
