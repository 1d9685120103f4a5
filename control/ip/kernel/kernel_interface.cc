#include "control/ip/kernel/kernel_interface.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace uroce::control {
namespace {

// RTM_NEWADDR and RTM_DELADDR with room for two addresses.
struct AddressMessage {
  nlmsghdr header{};
  ifaddrmsg address{};
  std::array<std::byte, 2 * RTA_SPACE(sizeof(Gid))> attributes{};
};

// The kernel's reply: an nlmsgerr, and the message that it is about.
struct Acknowledgement {
  nlmsghdr header{};
  nlmsgerr error{};
  std::array<std::byte, sizeof(AddressMessage)> about{};
};

AddressMessage address_message(std::uint16_t type, std::uint16_t flags, const Gid& address,
                               std::uint32_t interface) {
  const std::size_t skip = address.is_ipv4() ? kIpv4MappedPrefix.size() : 0;
  const std::size_t length = address.bytes.size() - skip;
  AddressMessage message;
  std::size_t used = 0;
  for (const std::uint16_t kind : {IFA_LOCAL, IFA_ADDRESS}) {
    const rtattr attribute{.rta_len = static_cast<std::uint16_t>(RTA_LENGTH(length)),
                           .rta_type = kind};
    std::memcpy(&message.attributes[used], &attribute, sizeof(attribute));
    std::memcpy(&message.attributes[used + RTA_LENGTH(0)], &address.bytes[skip], length);
    used += RTA_SPACE(length);
  }
  message.address.ifa_family = address.is_ipv4() ? AF_INET : AF_INET6;
  message.address.ifa_prefixlen = static_cast<std::uint8_t>(8 * length);
  message.address.ifa_flags = IFA_F_NODAD;
  message.address.ifa_index = interface;
  message.header.nlmsg_len = static_cast<std::uint32_t>(NLMSG_LENGTH(sizeof(ifaddrmsg)) + used);
  message.header.nlmsg_type = type;
  message.header.nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | NLM_F_ACK | flags);
  return message;
}

Error refused(const std::string& name, const char* what, int error) {
  std::string text = "can't " + std::string(what) + " the interface " + name + ": ";
  if (error == EPERM || error == EACCES) {
    text += "that needs CAP_NET_ADMIN; start uroced as root, or without --interface";
  } else if (error == EBUSY || error == EEXIST) {
    text += "there is one of this name already";
  } else {
    text += std::generic_category().message(error);
  }
  return {error, text};
}

ifreq request_for(const std::string& name) {
  ifreq request{};
  std::copy_n(name.begin(), std::min<std::size_t>(name.size(), IFNAMSIZ - 1), request.ifr_name);
  return request;
}

}  // namespace

Result<std::unique_ptr<KernelInterface>> KernelInterface::create(const std::string& name,
                                                                 std::uint32_t mtu) {
  UniqueFd tap(::open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!tap.valid()) {
    return errno == ENOENT ? Error{ENOENT, "can't make the interface " + name +
                                               ": there is no /dev/net/tun (kernel module tun)"}
                           : refused(name, "make", errno);
  }
  ifreq request = request_for(name);
  request.ifr_flags = static_cast<short>(IFF_TAP | IFF_NO_PI | IFF_TUN_EXCL);
  if (::ioctl(tap.get(), TUNSETIFF, &request) != 0) {
    return refused(name, "make", errno);
  }
  std::unique_ptr<KernelInterface> made(new KernelInterface(name, std::move(tap)));
  if (Status status = made->set_up(mtu); !status) {
    return status.error();
  }
  return Result<std::unique_ptr<KernelInterface>>(std::move(made));
}

Status KernelInterface::set_up(std::uint32_t mtu) {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request = request_for(name_);
  request.ifr_mtu = static_cast<int>(mtu);
  if (!socket.valid() || ::ioctl(socket.get(), SIOCSIFMTU, &request) != 0) {
    return refused(name_, "set the MTU of", errno);
  }
  request = request_for(name_);
  request.ifr_flags = IFF_UP;
  if (::ioctl(socket.get(), SIOCSIFFLAGS, &request) != 0) {
    return refused(name_, "set up", errno);
  }
  index_ = ::if_nametoindex(name_.c_str());
  return index_ != 0 ? ok() : Status(refused(name_, "find", errno));
}

Status KernelInterface::add(const Gid& address) {
  return change(RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, address);
}

Status KernelInterface::remove(const Gid& address) { return change(RTM_DELADDR, 0, address); }

Status KernelInterface::change(std::uint16_t message, std::uint16_t flags, const Gid& address) {
  const UniqueFd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  const AddressMessage request = address_message(message, flags, address, index_);
  Acknowledgement answer;
  if (!socket.valid() || ::send(socket.get(), &request, request.header.nlmsg_len, 0) < 0 ||
      ::recv(socket.get(), &answer, sizeof(answer), 0) <
          static_cast<ssize_t>(NLMSG_LENGTH(sizeof(nlmsgerr)))) {
    return refused(name_, "change addresses of", errno);
  }
  if (answer.header.nlmsg_type != NLMSG_ERROR || answer.error.error != 0) {
    return refused(name_, "change addresses of", -answer.error.error);
  }
  return ok();
}

}  // namespace uroce::control
