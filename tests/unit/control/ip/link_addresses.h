#pragma once

// The addresses of both ends of a link, for tests of the port's IP side.

#include "dataplane/wire/address.h"

namespace uroce::control {

inline constexpr EtherAddress kOurs{{2, 0, 0, 0, 0, 1}};
inline constexpr EtherAddress kTheirs{{2, 0, 0, 0, 0, 2}};
inline const Gid kOurIp = *parse_ip("10.0.0.1");
inline const Gid kTheirIp = *parse_ip("10.0.0.2");
inline const Gid kOurIpv6 = *parse_ip("fd00::1");
inline const Gid kTheirIpv6 = *parse_ip("fd00::2");

}  // namespace uroce::control
