#pragma once

// A socket address for programs and the connection manager: an IPv4 or IPv6 address (as a GID) and
// a port. Pure.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "dataplane/wire/address.h"

namespace uroce::control::cm_user {

enum class Family : std::uint8_t { kNone, kIpv4, kIpv6 };

struct Endpoint {
  Family family = Family::kNone;
  Gid address;             // IPv4 as ::ffff:a.b.c.d
  std::uint16_t port = 0;  // host order

  [[nodiscard]] bool is_set() const { return family != Family::kNone; }
  // 0.0.0.0 or ::, the wildcard addresses.
  [[nodiscard]] bool is_any() const;
  // 127.0.0.0/8 or ::1: this host.
  [[nodiscard]] bool is_loopback() const;
  auto operator<=>(const Endpoint&) const = default;
};

// "10.0.0.1:7471", "[fd00::1]:7471"
std::string to_string(const Endpoint& endpoint);

// 0.0.0.0 of the family, without a port.
Endpoint any_endpoint(Family family);
Endpoint endpoint_of(const Gid& gid, std::uint16_t port);

// From a struct sockaddr of any family; family 0: no address. EAFNOSUPPORT if it isn't IP:
// librdmacm then falls back to the commands that take IP addresses.
Result<Endpoint> parse_sockaddr(std::span<const std::byte> bytes);

// Writes a sockaddr_in or sockaddr_in6 and returns its size; 0 for no address. REQUIRES:
// out.size() >= sizeof(sockaddr_in6)
std::size_t store_sockaddr(const Endpoint& endpoint, std::span<std::byte> out);

}  // namespace uroce::control::cm_user
