#include "dataplane/port/host_interface.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/ioctl.h>

#include <algorithm>

#include "base/unique_fd.h"
#include "dataplane/port/socket_address.h"

namespace uroce {
namespace {

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
