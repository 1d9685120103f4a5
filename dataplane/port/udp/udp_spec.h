#pragma once

// "udp", "udp,iface=NAME", "udp,segments=N" or both: the arguments of --port for a udp port.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace uroce {

struct UdpSpec {
  std::string interface;  // the interface whose addresses the port uses; empty: the configured ones
  std::uint32_t segments = 0;  // datagrams per system call at most; 0: no limit
};

[[nodiscard]] bool is_udp_spec(std::string_view spec);

// EINVAL with a sentence. REQUIRES: is_udp_spec(spec).
Result<UdpSpec> parse_udp_spec(const std::string& spec);

}  // namespace uroce
