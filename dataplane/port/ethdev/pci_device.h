#pragma once

// A PCI device as the kernel sees it, for an error message when DPDK can't use it.

#include <string>
#include <string_view>

namespace uroce {

// "03:00.0" is short for "0000:03:00.0".
[[nodiscard]] std::string full_pci_address(std::string_view address);

// Why DPDK found no device there, and what to do: a sentence without its full stop. `sysfs` and
// `dev` are the folders that the kernel fills.
[[nodiscard]] std::string pci_device_trouble(const std::string& address,
                                             const std::string& sysfs = "/sys",
                                             const std::string& dev = "/dev");

}  // namespace uroce
