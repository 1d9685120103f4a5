#pragma once

// Ports by what the user calls them.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "dataplane/port/port.h"

namespace uroce {

struct PortOptions {
  std::uint32_t mtu = 1500;  // bytes of an IP packet
  std::uint16_t queues = 1;  // one a worker
};

inline constexpr std::uint32_t kPortMtuMin = 576;
inline constexpr std::uint32_t kPortMtuMax = 9'600;

// `spec`: "loopback", a PCI address ("0000:01:00.0"), or a vdev string ("net_memif0,role=server").
// All but loopback need a running EAL. Errors name the spec and say what to do.
[[nodiscard]] Result<std::unique_ptr<Port>> make_port(const std::string& spec,
                                                      const PortOptions& options);

[[nodiscard]] bool is_pci_address(std::string_view spec);

}  // namespace uroce
