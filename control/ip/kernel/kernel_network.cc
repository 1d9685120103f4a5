#include "control/ip/kernel/kernel_network.h"

#include <sys/socket.h>

#include <cerrno>

#include "dataplane/port/host_interface.h"
#include "dataplane/port/socket_address.h"
#include "dataplane/port/udp/port_holder.h"
#include "dataplane/wire/headers.h"

namespace uroce::control {
std::uint32_t interface_with(const Gid& address) {
  const auto interface = host_interface_with(address);
  return interface ? interface->index : 0;
}

Result<UniqueFd> bind_roce_socket(const Gid& address) {
  const int family = address.is_ipv4() ? AF_INET : AF_INET6;
  UniqueFd socket(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const int bytes = 1;  // the kernel raises it to its minimum
  if (!socket.valid() ||
      ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)) != 0) {
    return UniqueFd();
  }
  const SocketAddress local(address, kRoceUdpPort);
  if (::bind(socket.get(), &local.any, local.length) == 0) {
    return socket;
  }
  return errno == EADDRINUSE ? Result<UniqueFd>(Error{EADDRINUSE, roce_port_taken(address)})
                             : UniqueFd();
}

}  // namespace uroce::control
