#pragma once

// Creates ports from the user's port specs.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dataplane/port/port.h"

namespace uroce {

struct PortOptions {
  std::uint32_t mtu = 1500;      // bytes of an IP packet
  std::uint16_t queues = 1;      // one per worker
  std::vector<Gid> addresses{};  // for a udp port, which uses the interface with these
  std::uint8_t number = 0;       // of a loopback: its index among the daemon's
};

inline constexpr std::uint32_t kPortMtuMin = 576;
inline constexpr std::uint32_t kPortMtuMax = 9'600;

// `spec`: "loopback", "udp", "shm,path=FILE", a PCI address ("0000:01:00.0"), or a vdev string
// ("net_memif0,role=server"). REQUIRES: the EAL runs if needs_eal(). Errors name the spec and a
// remedy.
[[nodiscard]] Result<std::unique_ptr<Port>> make_port(const std::string& spec,
                                                      const PortOptions& options);

// Whether `spec` can name a port on some machine; this one may lack it. EINVAL with a sentence.
[[nodiscard]] Status check_port_spec(const std::string& spec);

[[nodiscard]] bool needs_eal(std::string_view spec);
[[nodiscard]] bool is_pci_address(std::string_view spec);

}  // namespace uroce
