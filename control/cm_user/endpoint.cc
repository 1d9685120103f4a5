#include "control/cm_user/endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace uroce::control::cm_user {
namespace {

template <typename Address>
Address load(std::span<const std::byte> bytes) {
  Address address{};
  if (!bytes.empty()) {
    std::memcpy(&address, bytes.data(), std::min(sizeof(address), bytes.size()));
  }
  return address;
}

}  // namespace

bool Endpoint::is_any() const {
  switch (family) {
    case Family::kNone:
      return false;
    case Family::kIpv4:
      return address == mapped_gid(in_addr{});
    case Family::kIpv6:
      return address.is_zero();
  }
  return false;
}

bool Endpoint::is_loopback() const {
  constexpr Gid kIpv6Loopback{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  return (family == Family::kIpv4 && ipv4_of(address)[0] == 127) ||
         (family == Family::kIpv6 && address == kIpv6Loopback);
}

std::string to_string(const Endpoint& endpoint) {
  const std::string address = to_string(endpoint.address);
  const std::string port = std::to_string(endpoint.port);
  switch (endpoint.family) {
    case Family::kNone:
      return "no address";
    case Family::kIpv4:
      return address + ":" + port;
    case Family::kIpv6:
      return "[" + address + "]:" + port;
  }
  return {};
}

Endpoint any_endpoint(Family family) {
  Endpoint any{.family = family, .address = {}, .port = 0};
  if (family == Family::kIpv4) {
    any.address = mapped_gid(in_addr{});
  }
  return any;
}

Endpoint endpoint_of(const Gid& gid, std::uint16_t port) {
  return {gid.is_ipv4() ? Family::kIpv4 : Family::kIpv6, gid, port};
}

Result<Endpoint> parse_sockaddr(std::span<const std::byte> bytes) {
  const auto family = load<sa_family_t>(bytes);
  if (family == AF_UNSPEC) {
    return Endpoint{};
  }
  if (family == AF_INET && bytes.size() >= sizeof(sockaddr_in)) {
    const auto address = load<sockaddr_in>(bytes);
    return Endpoint{Family::kIpv4, mapped_gid(address.sin_addr), ntohs(address.sin_port)};
  }
  if (family == AF_INET6 && bytes.size() >= sizeof(sockaddr_in6)) {
    const auto address = load<sockaddr_in6>(bytes);
    Gid gid;
    std::memcpy(gid.bytes.data(), &address.sin6_addr, sizeof(address.sin6_addr));
    // An IPv4-mapped IPv6 address is an IPv4 address: both have the same GID.
    return endpoint_of(gid, ntohs(address.sin6_port));
  }
  return Error{EAFNOSUPPORT, "addresses are IPv4 or IPv6, not of family " + std::to_string(family)};
}

std::size_t store_sockaddr(const Endpoint& endpoint, std::span<std::byte> out) {
  UROCE_CHECK(out.size() >= sizeof(sockaddr_in6));
  if (endpoint.family == Family::kIpv4) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(endpoint.port);
    address.sin_addr = std::bit_cast<in_addr>(ipv4_of(endpoint.address));
    std::memcpy(out.data(), &address, sizeof(address));
    return sizeof(address);
  }
  if (endpoint.family == Family::kIpv6) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(endpoint.port);
    std::memcpy(&address.sin6_addr, endpoint.address.bytes.data(), sizeof(address.sin6_addr));
    std::memcpy(out.data(), &address, sizeof(address));
    return sizeof(address);
  }
  return 0;
}

}  // namespace uroce::control::cm_user
