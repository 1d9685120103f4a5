// Never connected: only for an unconnected socket does the kernel send the identification 0 (and 1,
// 2, ... in the segments of one call), for which the ICRC is computed.

#include "dataplane/port/udp/udp_socket.h"

#include <netinet/udp.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "dataplane/port/socket_address.h"
#include "dataplane/port/steering_bpf.h"
#include "dataplane/port/udp/port_holder.h"
#include "dataplane/wire/headers.h"

namespace uroce {
namespace {

constexpr int kBufferBytes = 8 << 20;  // the kernel caps it at rmem_max and wmem_max

Error refused(const Gid& address, const char* what, int error) {
  return {error, "port udp: can't " + std::string(what) + " a UDP socket at " + to_string(address) +
                     ": " + std::generic_category().message(error)};
}

Error not_bound(const Gid& address, int error) {
  // A link-local address that no interface has comes without its interface's index: EINVAL.
  if (error == EADDRNOTAVAIL || error == EINVAL) {
    return {EADDRNOTAVAIL,
            "port udp: " + to_string(address) +
                " isn't an address of this machine; a udp port takes the machine's own "
                "(`ip address` lists them)"};
  }
  if (error == EADDRINUSE) {
    return {error, "port udp: " + roce_port_taken(address)};
  }
  return refused(address, "bind", error);
}

bool set(int descriptor, int level, int option, int value) {
  return ::setsockopt(descriptor, level, option, &value, sizeof(value)) == 0;
}

// Requests a datagram's ancillary data and delivery errors, and forbids fragmentation. What ICMP
// errors say of the path's MTU isn't heeded (PROBE): anybody may forge one, and Linux would refuse
// longer datagrams for ten minutes.
bool set_up(int descriptor, bool ipv6) {
  set(descriptor, SOL_SOCKET, SO_RCVBUF, kBufferBytes);
  set(descriptor, SOL_SOCKET, SO_SNDBUF, kBufferBytes);
  set(descriptor, SOL_SOCKET, SO_RXQ_OVFL, 1);
  set(descriptor, SOL_UDP, UDP_GRO, 1);  // Linux 5.0; without it datagrams arrive singly
  if (ipv6) {
    // Cards send no UDP checksum; the ICRC covers more.
    return set(descriptor, SOL_UDP, UDP_NO_CHECK6_RX, 1) &&
           set(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, 1) &&
           set(descriptor, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE) &&
           set(descriptor, IPPROTO_IPV6, IPV6_RECVERR, 1) &&
           set(descriptor, IPPROTO_IPV6, IPV6_RECVTCLASS, 1) &&
           set(descriptor, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1);
  }
  return set(descriptor, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE) &&
         set(descriptor, IPPROTO_IP, IP_RECVERR, 1) && set(descriptor, IPPROTO_IP, IP_RECVTOS, 1) &&
         set(descriptor, IPPROTO_IP, IP_RECVTTL, 1);
}

enum class Sharing : std::uint8_t { kNone, kAmongWorkers };

Result<UniqueFd> open_socket(const Gid& address, std::uint32_t scope, Sharing sharing) {
  const bool ipv6 = !address.is_ipv4();
  const int family = ipv6 ? AF_INET6 : AF_INET;
  UniqueFd socket(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid() || !set_up(socket.get(), ipv6)) {
    return refused(address, "make", errno);
  }
  if (sharing == Sharing::kAmongWorkers && !set(socket.get(), SOL_SOCKET, SO_REUSEPORT, 1)) {
    return refused(address, "share", errno);
  }
  const SocketAddress local(address, kRoceUdpPort, scope);
  if (::bind(socket.get(), &local.any, local.length) != 0) {
    return not_bound(address, errno);
  }
  return Result<UniqueFd>(std::move(socket));
}

// If this is refused the kernel distributes by addresses, and workers forward frames to their
// owners.
void steer_to_owners(int descriptor, std::uint16_t workers) {
  std::vector<sock_filter> program = datagram_steering_bpf(workers);
  const sock_fprog filter = as_filter(program);
  ::setsockopt(descriptor, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &filter, sizeof(filter));
}

}  // namespace

Result<std::vector<UniqueFd>> open_udp_sockets(const Gid& address, std::uint32_t scope,
                                               std::uint16_t count) {
  std::vector<UniqueFd> sockets;
  // Exclusive first: shared sockets would join the group of another daemon of the same user.
  auto alone = open_socket(address, scope, Sharing::kNone);
  if (!alone) {
    return alone.error();
  }
  if (count == 1) {
    sockets.push_back(std::move(*alone));
    return Result<std::vector<UniqueFd>>(std::move(sockets));
  }
  alone->reset();
  for (std::uint16_t i = 0; i < count; ++i) {
    auto shared = open_socket(address, scope, Sharing::kAmongWorkers);
    if (!shared) {
      return shared.error();
    }
    sockets.push_back(std::move(*shared));
  }
  steer_to_owners(sockets.front().get(), count);
  return Result<std::vector<UniqueFd>>(std::move(sockets));
}

}  // namespace uroce
