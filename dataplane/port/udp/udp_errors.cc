#include "dataplane/port/udp/udp_errors.h"

#include <linux/errqueue.h>
#include <netinet/icmp6.h>
#include <netinet/ip_icmp.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "dataplane/port/socket_address.h"
#include "dataplane/port/udp/icmp_frame.h"

namespace uroce {
namespace {

struct QueuedError {
  sock_extended_err what{};
  Gid reporter;  // zero: this machine itself
  Gid destination;
  std::array<std::byte, kQuotedBytesMax> payload;
  std::size_t length = 0;
};

bool is_error(const cmsghdr& header) {
  return (header.cmsg_level == IPPROTO_IP && header.cmsg_type == IP_RECVERR) ||
         (header.cmsg_level == IPPROTO_IPV6 && header.cmsg_type == IPV6_RECVERR);
}

// nullopt: the queue is empty.
std::optional<QueuedError> next_error(int descriptor) {
  QueuedError error;
  iovec piece{error.payload.data(), error.payload.size()};
  SocketAddress destination;
  alignas(cmsghdr) std::array<std::byte, 256> control;
  msghdr message{.msg_name = &destination.any,
                 .msg_namelen = sizeof(destination.ipv6),
                 .msg_iov = &piece,
                 .msg_iovlen = 1,
                 .msg_control = control.data(),
                 .msg_controllen = control.size(),
                 .msg_flags = 0};
  const ssize_t received = ::recvmsg(descriptor, &message, MSG_ERRQUEUE | MSG_DONTWAIT);
  if (received < 0) {
    return std::nullopt;
  }
  error.length = static_cast<std::size_t>(received);
  error.destination = gid_of(destination.any);
  for (cmsghdr* at = CMSG_FIRSTHDR(&message); at != nullptr; at = CMSG_NXTHDR(&message, at)) {
    if (is_error(*at)) {
      SocketAddress offender;
      std::memcpy(&error.what, CMSG_DATA(at), sizeof(error.what));
      const std::size_t rest = at->cmsg_len - CMSG_LEN(sizeof(error.what));
      std::memcpy(&offender.ipv6, CMSG_DATA(at) + sizeof(error.what),
                  std::min(rest, sizeof(offender.ipv6)));
      error.reporter = gid_of(offender.any);
    }
  }
  return error;
}

// The ICMP message for it; nullopt: it isn't about the path.
std::optional<IcmpError> message_of(const QueuedError& error, const Gid& address) {
  IcmpError message{.type = error.what.ee_type,
                    .code = error.what.ee_code,
                    .mtu = 0,
                    .reporter = error.reporter.is_zero() ? address : error.reporter,
                    .source = address,
                    .destination = error.destination,
                    .payload = {error.payload.data(), error.length}};
  const bool ipv4 = address.is_ipv4();
  if (error.what.ee_errno == EMSGSIZE) {
    message.type = ipv4 ? ICMP_DEST_UNREACH : ICMP6_PACKET_TOO_BIG;
    message.code = ipv4 ? ICMP_FRAG_NEEDED : 0;
    message.mtu = error.what.ee_info;
  } else if (error.what.ee_origin != SO_EE_ORIGIN_ICMP &&
             error.what.ee_origin != SO_EE_ORIGIN_ICMP6) {
    return std::nullopt;
  }
  const bool one_kind = message.destination.is_ipv4() == ipv4 && message.reporter.is_ipv4() == ipv4;
  return one_kind ? std::optional(message) : std::nullopt;
}

}  // namespace

std::uint32_t take_udp_errors(int descriptor, const Gid& address, FramePool& pool, Frame** frames,
                              std::uint32_t max) {
  std::uint32_t count = 0;
  for (std::uint32_t i = 0; i < max && pool.allocate(frames + count, 1) == 1; ++i) {
    const auto error = next_error(descriptor);
    if (!error) {
      pool.release(frames + count, 1);
      break;
    }
    if (const auto message = message_of(*error, address)) {
      build_icmp_error(*frames[count], *message);
      ++count;
    } else {
      pool.release(frames + count, 1);
    }
  }
  return count;
}

}  // namespace uroce
