#include "control/ip/kernel/kernel_watch.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "base/system_error.h"

namespace uroce::control {
namespace {

constexpr int kNewsMax = 256;  // messages per call; the rest keeps the descriptor readable

}  // namespace

Result<KernelWatch> KernelWatch::open(Of what) {
  UniqueFd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
  sockaddr_nl groups{};
  groups.nl_family = AF_NETLINK;
  groups.nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  groups.nl_groups |= what == Of::kLinksAndAddresses ? RTMGRP_LINK : 0U;
  if (!socket.valid() ||
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&groups), sizeof(groups)) != 0) {
    return system_error("can't watch the interfaces of this machine");
  }
  return KernelWatch(std::move(socket));
}

// Discards the messages: the caller checks everything again.
void KernelWatch::drain() {
  std::array<std::byte, 4096> news;
  for (int i = 0; i < kNewsMax; ++i) {
    // A full socket (ENOBUFS) means changes, too.
    if (::recv(socket_.get(), news.data(), news.size(), 0) < 0 && errno != ENOBUFS) {
      return;
    }
  }
}

}  // namespace uroce::control
