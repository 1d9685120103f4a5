#pragma once

// Addresses that are given without the length of their network's prefix, as in --ip 10.0.0.1. Ports
// that loop back find everybody anyway, and of a udp port's subnets the kernel knows. Any other
// port would find nobody without a router: its subnet has one address.

#include <string>
#include <string_view>

#include "base/result.h"
#include "dataplane/wire/address.h"

namespace uroce::control {

inline bool is_bare_address(std::string_view text) {
  return text.find('/') == std::string_view::npos;
}

// What to write instead. REQUIRES: the text is a bare address, perhaps with @VLAN.
inline std::string length_wanted(std::string_view text) {
  const std::string address(text.substr(0, text.find('@')));
  const auto parsed = parse_ip(address);
  return "say " + address + (parsed && parsed->is_ipv4() ? "/24" : "/64") + " rather than " +
         address +
         ", with the length of its network's prefix: without one nobody is on its network";
}

}  // namespace uroce::control
