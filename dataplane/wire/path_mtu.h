#pragma once

// Path MTUs: what of a packet is payload at most. Codes are those of verbs: 1 is 256 bytes, 5 is
// 4096.

#include <bit>
#include <cstdint>

#include "dataplane/wire/headers.h"
#include "dataplane/wire/opcode.h"

namespace uroce {

inline constexpr std::uint32_t kPathMtuCodeMax = 5;
inline constexpr std::uint32_t kPathMtuMin = 256, kPathMtuMax = 4'096;  // bytes
// In front of and behind a payload within the port's MTU: IPv6, UDP, the longest transport headers
// and the ICRC. (A VLAN tag is part of the Ethernet header, which doesn't count.)
inline constexpr std::uint32_t kHeadersMax =
    40 + 8 + static_cast<std::uint32_t>(kPayloadHeadersMax) + kIcrcLength;

constexpr bool is_path_mtu_code(std::uint32_t code) { return code >= 1 && code <= kPathMtuCodeMax; }

constexpr std::uint32_t mtu_bytes(std::uint32_t code) { return 128U << code; }
static_assert(mtu_bytes(1) == kPathMtuMin && mtu_bytes(kPathMtuCodeMax) == kPathMtuMax);

constexpr bool is_path_mtu(std::uint32_t bytes) {
  return bytes >= kPathMtuMin && bytes <= kPathMtuMax && std::has_single_bit(bytes);
}

// The largest that a port with IP packets of `port_mtu` bytes carries; 0: none.
constexpr std::uint32_t path_mtu_code(std::uint32_t port_mtu) {
  std::uint32_t code = 0;
  while (code < kPathMtuCodeMax && mtu_bytes(code + 1) + kHeadersMax <= port_mtu) {
    ++code;
  }
  return code;
}

// IP packets of how many bytes such a port must carry to keep what it says of its path MTU.
constexpr std::uint32_t packet_bytes_max(std::uint32_t port_mtu) {
  const std::uint32_t code = path_mtu_code(port_mtu);
  return code == 0 ? port_mtu : mtu_bytes(code) + kHeadersMax;
}

}  // namespace uroce
