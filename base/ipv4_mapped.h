#pragma once

// IPv4-mapped addresses: ::ffff:a.b.c.d, the IPv6 address that stands for an IPv4 address (RFC
// 4291, 2.5.5.2). GIDs name IPv4 addresses this way (annex A17.4.5.1).

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace uroce {

// What a mapped address has in front of the four bytes of the IPv4 address.
inline constexpr std::array<std::uint8_t, 12> kIpv4MappedPrefix{0, 0, 0, 0, 0,    0,
                                                                0, 0, 0, 0, 0xFF, 0xFF};

constexpr bool is_ipv4_mapped(std::span<const std::uint8_t, 16> address) {
  return std::equal(kIpv4MappedPrefix.begin(), kIpv4MappedPrefix.end(), address.begin());
}

// `ipv4`: in_addr, or any other four bytes in network order.
template <typename Ipv4>
constexpr std::array<std::uint8_t, 16> ipv4_mapped(const Ipv4& ipv4) {
  const auto b = std::bit_cast<std::array<std::uint8_t, 4>>(ipv4);
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, b[0], b[1], b[2], b[3]};
}

}  // namespace uroce
