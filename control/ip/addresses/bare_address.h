#pragma once

// Addresses given without a prefix length, as in --ip 10.0.0.1. A loopback port doesn't need one,
// and for a udp port the kernel knows the subnet. Any other port could reach no peer without a
// router, as its subnet would be a single address.

#include <string>
#include <string_view>

#include "base/result.h"
#include "dataplane/wire/address.h"

namespace uroce::control {

inline bool is_bare_address(std::string_view text) {
  return text.find('/') == std::string_view::npos;
}

// The text to write instead, for messages. REQUIRES: the text is a bare address, perhaps with
// @VLAN.
inline std::string length_wanted(std::string_view text) {
  const std::string address(text.substr(0, text.find('@')));
  const auto parsed = parse_ip(address);
  return "say " + address + (parsed && parsed->is_ipv4() ? "/24" : "/64") + " rather than " +
         address +
         ", with the length of its network's prefix: without one nobody is on its network";
}

}  // namespace uroce::control
