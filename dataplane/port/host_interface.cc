#include "dataplane/port/host_interface.h"

#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
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
                              address.is_ipv4() && ipv4_of(address)[0] == kLoopbackNet);
}

// One query about an interface by its name.
class InterfaceQuestion {
 public:
  explicit InterfaceQuestion(const std::string& name)
      : name_(name), socket_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {}

  // nullopt: no such interface, or no socket for the query. `data`: for requests with data.
  std::optional<ifreq> ask(unsigned long what, char* data = nullptr) const {
    ifreq request{};
    std::copy_n(name_.begin(), std::min<std::size_t>(name_.size(), IFNAMSIZ - 1), request.ifr_name);
    request.ifr_data = data;
    return ::ioctl(socket_.get(), what, &request) == 0 ? std::optional(request) : std::nullopt;
  }

  // Mb/s; 0: the driver doesn't know, or there is no carrier.
  std::uint32_t speed() const {
    ethtool_cmd settings{};
    settings.cmd = ETHTOOL_GSET;
    if (!ask(SIOCETHTOOL, reinterpret_cast<char*>(&settings))) {
      return 0;
    }
    const std::uint32_t told = ethtool_cmd_speed(&settings);
    return told == static_cast<std::uint32_t>(SPEED_UNKNOWN) ? 0 : told;
  }

 private:
  const std::string& name_;
  UniqueFd socket_;
};

}  // namespace

std::optional<HostInterface> host_interface(const std::string& name) {
  const InterfaceQuestion question(name);
  const auto index = question.ask(SIOCGIFINDEX);
  if (!index) {
    return std::nullopt;
  }
  HostInterface found{.name = name, .index = static_cast<std::uint32_t>(index->ifr_ifindex)};
  if (const auto flags = question.ask(SIOCGIFFLAGS)) {
    constexpr int kUp = IFF_UP | IFF_RUNNING;
    found.set_up = (flags->ifr_flags & IFF_UP) != 0;
    found.up = (flags->ifr_flags & kUp) == kUp;
  }
  if (const auto mtu = question.ask(SIOCGIFMTU)) {
    found.mtu = static_cast<std::uint32_t>(mtu->ifr_mtu);
  }
  found.speed_mbps = question.speed();
  if (const auto mac = question.ask(SIOCGIFHWADDR)) {
    std::copy_n(mac->ifr_hwaddr.sa_data, found.mac.bytes.size(), found.mac.bytes.begin());
  }
  return found;
}

std::string interface_trouble(const std::string& name, const std::optional<HostInterface>& found,
                              std::uint32_t mtu) {
  if (!found) {
    return "the interface " + name + " isn't there (`ip link` lists those there are)";
  }
  if (!found->set_up) {
    return "the interface " + name + " is down (`ip link set " + name + " up`)";
  }
  if (!found->up) {
    return "the interface " + name + " has no carrier: its other end is down, or the cable is out";
  }
  if (found->mtu < mtu) {
    return "the interface " + name + " has an MTU of " + std::to_string(found->mtu) +
           ", and the port's path MTU needs " + std::to_string(mtu) + " (`ip link set " + name +
           " mtu " + std::to_string(mtu) + "`, or a smaller --mtu)";
  }
  return {};
}

// A connected socket knows its route; nothing is sent.
std::uint32_t host_mtu_to(const Gid& source, const Gid& peer, std::uint32_t scope) {
  const bool ipv4 = peer.is_ipv4();
  const UniqueFd socket(::socket(ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const SocketAddress local(source, 0, scope);
  const SocketAddress remote(peer, kRoceUdpPort, scope);
  // Errors other than a missing route are left to sending.
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
  return known == 0 && mtu > 0 ? std::max(static_cast<std::uint32_t>(mtu), kBelievedMtuMin)
                               : kMtuUnbounded;
}

std::optional<HostInterface> host_interface_with(const Gid& address) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) {
    return std::nullopt;
  }
  std::optional<HostInterface> interface;
  for (const ifaddrs* one = all; one != nullptr && !interface; one = one->ifa_next) {
    if (carries(*one, address)) {
      interface = host_interface(one->ifa_name);
    }
  }
  ::freeifaddrs(all);
  return interface;
}

}  // namespace uroce
