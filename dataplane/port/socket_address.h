#pragma once

// Addresses in the form of the kernel's sockets.

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>

#include "dataplane/wire/address.h"

namespace uroce {

struct SocketAddress {
  union {
    sockaddr any;
    sockaddr_in ipv4;
    sockaddr_in6 ipv6;
  };
  socklen_t length = 0;

  SocketAddress() : ipv6{} {}
  // `scope`: index of the interface, which link-local IPv6 addresses need.
  SocketAddress(const Gid& address, std::uint16_t port, std::uint32_t scope = 0);
};

// Zero for families other than IPv4 and IPv6.
[[nodiscard]] Gid gid_of(const sockaddr& address);
[[nodiscard]] std::uint16_t port_of(const sockaddr& address);

}  // namespace uroce
