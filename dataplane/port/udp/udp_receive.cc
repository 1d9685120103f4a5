#include "dataplane/port/udp/udp_receive.h"

#include <netinet/udp.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "dataplane/port/socket_address.h"
#include "dataplane/port/udp/udp_errors.h"
#include "dataplane/wire/ecn.h"

namespace uroce {
namespace {

// The first byte or bytes of a control message. TOS comes as a byte, the rest as an int.
template <typename T>
T value_of(const cmsghdr& header) {
  T value{};
  std::memcpy(&value, CMSG_DATA(&header), sizeof(value));
  return value;
}

}  // namespace

UdpReceiver::UdpReceiver(int descriptor, const Gid& address)
    : descriptor_(descriptor), buffer_(new std::byte[kJoinedBytesMax]) {
  path_.destination = address;
}

std::uint32_t UdpReceiver::take(FramePool& pool, Frame** frames, std::uint32_t max,
                                QueueCounters& counters) {
  std::uint32_t count = 0;
  while (count < max && (holds_any() || fetch(counters))) {
    const std::size_t before = at_;
    count += cut(pool, frames + count, max - count, counters);
    if (at_ == before && holds_any()) {
      break;  // no frames to be had
    }
  }
  return count;
}

std::uint32_t UdpReceiver::take_errors(FramePool& pool, Frame** frames, std::uint32_t max) const {
  return take_udp_errors(descriptor_, path_.destination, pool, frames, max);
}

// One call of the kernel. False: nothing there.
bool UdpReceiver::fetch(QueueCounters& counters) {
  iovec piece{buffer_.get(), kJoinedBytesMax};
  SocketAddress sender;
  alignas(cmsghdr) std::array<std::byte, 256> control;
  msghdr message{.msg_name = &sender.any,
                 .msg_namelen = sizeof(sender.ipv6),
                 .msg_iov = &piece,
                 .msg_iovlen = 1,
                 .msg_control = control.data(),
                 .msg_controllen = control.size(),
                 .msg_flags = 0};
  const ssize_t received = ::recvmsg(descriptor_, &message, MSG_DONTWAIT);
  if (received < 0) {
    failed_ |= errno != EAGAIN;
    return false;
  }
  at_ = 0;
  length_ = static_cast<std::size_t>(received);
  segment_ = length_;
  path_.source = gid_of(sender.any);
  source_port_ = port_of(sender.any);
  read_control(&message, counters);
  return true;
}

// A socket's buffer is the last queue on the way: after it had no room it marks what it lets
// through, as a switch does, and the queue pair asks the sender to slow down.
void UdpReceiver::read_control(msghdr* message, QueueCounters& counters) {
  bool overflowed = false;
  for (cmsghdr* at = CMSG_FIRSTHDR(message); at != nullptr; at = CMSG_NXTHDR(message, at)) {
    const int level = at->cmsg_level;
    const int type = at->cmsg_type;
    if (level == SOL_UDP && type == UDP_GRO) {
      segment_ = static_cast<std::size_t>(std::max(value_of<int>(*at), 1));
    } else if (level == IPPROTO_IP && type == IP_TOS) {
      path_.tos = value_of<std::uint8_t>(*at);
    } else if (level == IPPROTO_IPV6 && type == IPV6_TCLASS) {
      path_.tos = static_cast<std::uint8_t>(value_of<int>(*at));
    } else if ((level == IPPROTO_IP && type == IP_TTL) ||
               (level == IPPROTO_IPV6 && type == IPV6_HOPLIMIT)) {
      path_.hop_limit = static_cast<std::uint8_t>(value_of<int>(*at));
    } else if (level == SOL_SOCKET && type == SO_RXQ_OVFL) {
      const auto overflows = value_of<std::uint32_t>(*at);
      counters.missed(overflows - overflows_);
      overflowed = overflows != overflows_;
      overflows_ = overflows;
    }
  }
  path_.tos = overflowed ? marked_by_full_queue(path_.tos) : path_.tos;
}

// Frames from the buffer. What no frame has room for isn't from a peer that keeps to the MTU.
std::uint32_t UdpReceiver::cut(FramePool& pool, Frame** frames, std::uint32_t max,
                               QueueCounters& counters) {
  if (!holds_any()) {
    return 0;
  }
  if (segment_ + datagram_headers(path_.source.is_ipv4()) > pool.capacity()) {
    counters.missed(1);
    at_ = length_;
    return 0;
  }
  const std::size_t left = (length_ - at_ + segment_ - 1) / segment_;
  const auto wanted = static_cast<std::uint32_t>(std::min<std::size_t>(max, left));
  const std::uint32_t count = pool.allocate(frames, wanted);
  const DatagramHeaders headers(path_, source_port_);
  std::uint32_t solved = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::size_t size = std::min(segment_, length_ - at_);
    const IpId id = build_frame(*frames[i], headers, {buffer_.get() + at_, size});
    solved += id == IpId::kSolved ? 1 : 0;
    at_ += size;
  }
  counters.received(frames, count);
  counters.solved(solved);
  return count;
}

}  // namespace uroce
