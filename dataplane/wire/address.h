#pragma once

// Ethernet addresses and GIDs.

#include <array>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/ipv4_mapped.h"

namespace uroce {

struct EtherAddress {
  std::array<std::uint8_t, 6> bytes{};
  auto operator<=>(const EtherAddress&) const = default;
  [[nodiscard]] bool is_multicast() const { return (bytes[0] & 1U) != 0; }
};
static_assert(sizeof(EtherAddress) == 6);

// A RoCEv2 GID is an IPv6 address; an IPv4 address stands as ::ffff:a.b.c.d (annex A17.4.5.1).
struct Gid {
  std::array<std::uint8_t, 16> bytes{};
  auto operator<=>(const Gid&) const = default;
  // By halves: a packet's addresses are compared with what is expected of it.
  bool operator==(const Gid& other) const {
    using Halves = std::array<std::uint64_t, 2>;
    const auto ours = std::bit_cast<Halves>(bytes), theirs = std::bit_cast<Halves>(other.bytes);
    return ((ours[0] ^ theirs[0]) | (ours[1] ^ theirs[1])) == 0;
  }
  [[nodiscard]] bool is_zero() const { return *this == Gid{}; }
  [[nodiscard]] bool is_ipv4() const { return is_ipv4_mapped(bytes); }
};
static_assert(sizeof(Gid) == 16);

// The GID of an IPv4 address: in_addr, or any other four bytes in network order.
template <typename Ipv4>
constexpr Gid mapped_gid(const Ipv4& ipv4) {
  return Gid{ipv4_mapped(ipv4)};
}
// The address that an IPv4-mapped GID stands for, in network order.
constexpr std::array<std::uint8_t, 4> ipv4_of(const Gid& gid) {
  const auto& b = gid.bytes;
  return {b[12], b[13], b[14], b[15]};
}

// Who counts as one sender: an IPv4 address, or the network of 64 bits that one IPv6 host may fill
// with addresses of its own.
[[nodiscard]] Gid host_of(const Gid& address);

// The identifier in an 802.1Q tag; the rest is priority. 0 and 4095 name no VLAN.
inline constexpr std::uint16_t kVlanIdMask = 0xFFF;
inline constexpr std::uint32_t kVlanPriorityShift = 13;  // of its three bits
inline constexpr std::uint16_t kVlanIdMax = 4'094;

// An address and the VLAN in which it is found.
struct LinkAddress {
  Gid gid;
  std::uint16_t vlan = 0;  // the id, without priority; 0: untagged

  LinkAddress() = default;
  // Implicit, because most links have no tags.
  LinkAddress(const Gid& address, std::uint16_t vlan_id = 0) : gid(address), vlan(vlan_id) {}
  auto operator<=>(const LinkAddress&) const = default;
};

// The Ethernet address of a station that the kernel finds by itself, so that nobody here knows the
// real one: 06:00 and the four bytes of an IPv4 address, 0a and 40 bits of a hash (FNV-1a) of an
// IPv6 one. Local and unicast; the same everywhere.
[[nodiscard]] EtherAddress stand_in_mac(const Gid& gid);

// "aa:bb:cc:dd:ee:ff"; "10.0.0.1" or "fe80::1". Parsing takes an IPv4 or IPv6 address.
[[nodiscard]] std::string to_string(const EtherAddress& address);
[[nodiscard]] std::string to_string(const Gid& gid);
[[nodiscard]] std::optional<Gid> parse_ip(std::string_view text);
[[nodiscard]] std::optional<EtherAddress> parse_mac(std::string_view text);

}  // namespace uroce
