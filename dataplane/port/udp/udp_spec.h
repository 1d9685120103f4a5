#pragma once

// "udp", "udp,iface=NAME", "udp,segments=N" or both: the arguments of --port for a udp port.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace uroce {

struct UdpSpec {
  std::string interface;  // the one whose addresses the port takes; empty: those that it is given
  std::uint32_t segments = 0;  // datagrams a system call at most; 0: as many as can be
};

[[nodiscard]] bool is_udp_spec(std::string_view spec);

// EINVAL with a sentence. REQUIRES: is_udp_spec(spec).
Result<UdpSpec> parse_udp_spec(const std::string& spec);

}  // namespace uroce
