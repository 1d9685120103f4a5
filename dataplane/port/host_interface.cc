#include "dataplane/port/host_interface.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>

#include "base/unique_fd.h"
#include "dataplane/port/socket_address.h"
#include "dataplane/wire/headers.h"

namespace uroce {
namespace {

constexpr std::uint32_t kMtuUnbounded = 65'535;

bool carries(const ifaddrs& entry, const Gid& address) {
  constexpr std::uint8_t kLoopbackNet = 127;
  if (entry.ifa_addr == nullptr) {
    return false;
  }
  const Gid found = gid_of(*entry.ifa_addr);
  return found == address || ((entry.ifa_flags & IFF_LOOPBACK) != 0 && found.is_ipv4() &&
                              address.is_ipv4() && address.bytes[12] == kLoopbackNet);
}

std::uint32_t mtu_of(const std::string& name) {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::copy_n(name.begin(), std::min<std::size_t>(name.size(), IFNAMSIZ - 1), request.ifr_name);
  return ::ioctl(socket.get(), SIOCGIFMTU, &request) == 0
             ? static_cast<std::uint32_t>(request.ifr_mtu)
             : 0;
}

}  // namespace

std::optional<HostInterface> host_interface(const std::string& name) {
  const std::uint32_t index = ::if_nametoindex(name.c_str());
  if (index == 0) {
    return std::nullopt;
  }
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::copy_n(name.begin(), std::min<std::size_t>(name.size(), IFNAMSIZ - 1), request.ifr_name);
  constexpr int kUp = IFF_UP | IFF_RUNNING;
  const bool up =
      ::ioctl(socket.get(), SIOCGIFFLAGS, &request) == 0 && (request.ifr_flags & kUp) == kUp;
  return HostInterface{.name = name, .index = index, .mtu = mtu_of(name), .up = up};
}

// A socket that is connected knows its route; nothing is sent.
std::uint32_t host_mtu_to(const Gid& source, const Gid& peer, std::uint32_t scope) {
  const bool ipv4 = peer.is_ipv4();
  const UniqueFd socket(::socket(ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const SocketAddress local(source, 0, scope);
  const SocketAddress remote(peer, kRoceUdpPort, scope);
  // What else than a missing route may be in the way is for the datagrams to meet.
  if (::bind(socket.get(), &local.any, local.length) != 0) {
    return kMtuUnbounded;
  }
  if (::connect(socket.get(), &remote.any, remote.length) != 0) {
    return errno == ENETUNREACH || errno == EHOSTUNREACH ? 0 : kMtuUnbounded;
  }
  int mtu = 0;
  socklen_t length = sizeof(mtu);
  const int known = ipv4 ? ::getsockopt(socket.get(), IPPROTO_IP, IP_MTU, &mtu, &length)
                         : ::getsockopt(socket.get(), IPPROTO_IPV6, IPV6_MTU, &mtu, &length);
  return known == 0 && mtu > 0 ? static_cast<std::uint32_t>(mtu) : kMtuUnbounded;
}

std::optional<HostInterface> host_interface_with(const Gid& address) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) {
    return std::nullopt;
  }
  std::optional<HostInterface> interface;
  for (const ifaddrs* one = all; one != nullptr && !interface; one = one->ifa_next) {
    if (carries(*one, address)) {
      constexpr unsigned kUp = IFF_UP | IFF_RUNNING;
      interface = HostInterface{.name = one->ifa_name,
                                .index = ::if_nametoindex(one->ifa_name),
                                .mtu = mtu_of(one->ifa_name),
                                .up = (one->ifa_flags & kUp) == kUp};
    }
  }
  ::freeifaddrs(all);
  return interface;
}

}  // namespace uroce
