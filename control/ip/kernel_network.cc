#include "control/ip/kernel_network.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "dataplane/wire/headers.h"

namespace uroce::control {
namespace {

Gid gid_of(const sockaddr* address) {
  Gid gid;
  if (address->sa_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, address, sizeof(in));
    gid.bytes[10] = gid.bytes[11] = 0xFF;
    std::memcpy(gid.bytes.data() + 12, &in.sin_addr, 4);
  } else if (address->sa_family == AF_INET6) {
    sockaddr_in6 in{};
    std::memcpy(&in, address, sizeof(in));
    std::memcpy(gid.bytes.data(), &in.sin6_addr, 16);
  }
  return gid;
}

}  // namespace

std::uint32_t interface_with(const Gid& address) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) {
    return 0;
  }
  std::uint32_t index = 0;
  for (const ifaddrs* one = all; one != nullptr && index == 0; one = one->ifa_next) {
    if (one->ifa_addr != nullptr && gid_of(one->ifa_addr) == address) {
      index = ::if_nametoindex(one->ifa_name);
    }
  }
  ::freeifaddrs(all);
  return index;
}

UniqueFd hold_roce_port(const Gid& address) {
  const int family = address.is_ipv4() ? AF_INET : AF_INET6;
  UniqueFd socket(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const int bytes = 1;  // the kernel raises it to its least
  if (!socket.valid() ||
      ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)) != 0) {
    return {};
  }
  int bound = -1;
  if (address.is_ipv4()) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(kRoceUdpPort);
    std::memcpy(&in.sin_addr, address.bytes.data() + 12, 4);
    bound = ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&in), sizeof(in));
  } else {
    sockaddr_in6 in{};
    in.sin6_family = AF_INET6;
    in.sin6_port = htons(kRoceUdpPort);
    std::memcpy(&in.sin6_addr, address.bytes.data(), 16);
    bound = ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&in), sizeof(in));
  }
  return bound == 0 ? std::move(socket) : UniqueFd();
}

}  // namespace uroce::control
