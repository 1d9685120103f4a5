#include "dataplane/port/socket_address.h"

#include <cstring>

namespace uroce {

SocketAddress::SocketAddress(const Gid& address, std::uint16_t port, std::uint32_t scope) : ipv6{} {
  if (address.is_ipv4()) {
    ipv4 = sockaddr_in{};
    ipv4.sin_family = AF_INET;
    ipv4.sin_port = htons(port);
    ipv4.sin_addr = std::bit_cast<in_addr>(ipv4_of(address));
    length = sizeof(ipv4);
  } else {
    ipv6.sin6_family = AF_INET6;
    ipv6.sin6_port = htons(port);
    ipv6.sin6_scope_id = scope;
    std::memcpy(&ipv6.sin6_addr, address.bytes.data(), sizeof(ipv6.sin6_addr));
    length = sizeof(ipv6);
  }
}

Gid gid_of(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, &address, sizeof(in));
    return mapped_gid(in.sin_addr);
  }
  Gid gid;
  if (address.sa_family == AF_INET6) {
    sockaddr_in6 in{};
    std::memcpy(&in, &address, sizeof(in));
    std::memcpy(gid.bytes.data(), &in.sin6_addr, sizeof(in.sin6_addr));
  }
  return gid;
}

std::uint16_t port_of(const sockaddr& address) {
  sockaddr_in in{};  // both families have it at the same offset
  std::memcpy(&in, &address, sizeof(address));
  return ntohs(in.sin_port);
}

}  // namespace uroce
