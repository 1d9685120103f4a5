#include "control/ip/kernel_network.h"

#include <sys/socket.h>

#include "dataplane/port/host_interface.h"
#include "dataplane/port/socket_address.h"
#include "dataplane/wire/headers.h"

namespace uroce::control {
std::uint32_t interface_with(const Gid& address) {
  const auto interface = host_interface_with(address);
  return interface ? interface->index : 0;
}

UniqueFd hold_roce_port(const Gid& address) {
  const int family = address.is_ipv4() ? AF_INET : AF_INET6;
  UniqueFd socket(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const int bytes = 1;  // the kernel raises it to its least
  if (!socket.valid() ||
      ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)) != 0) {
    return {};
  }
  const SocketAddress local(address, kRoceUdpPort);
  return ::bind(socket.get(), &local.any, local.length) == 0 ? std::move(socket) : UniqueFd();
}

}  // namespace uroce::control
