#pragma once

// The bounds of a port as an IP host, and what it tells programs of itself.

#include <cstdint>

#include "dataplane/wire/headers.h"
#include "dataplane/wire/opcode.h"

namespace uroce::control {

inline constexpr std::uint32_t kDevicesMax = 16;
inline constexpr std::uint32_t kGidsMax = 128;
inline constexpr std::uint32_t kPkeysMax = 1;
inline constexpr std::uint32_t kMessageBytesMax = 1U << 31U;
// In front of and behind a payload within the port's MTU: IPv6, UDP, the longest transport headers
// and the ICRC. (A VLAN tag is part of the Ethernet header, which doesn't count.)
inline constexpr std::uint32_t kHeadersMax =
    40 + 8 + static_cast<std::uint32_t>(kPayloadHeadersMax) + kIcrcLength;

}  // namespace uroce::control
