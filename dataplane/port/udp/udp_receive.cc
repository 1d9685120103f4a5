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
    : descriptor_(descriptor), address_(address), buffers_(new std::byte[kSinglesMax * kStride]) {
  for (std::size_t i = 0; i < headers_.size(); ++i) {
    Place& place = places_[i];
    place.bytes = {buffers_.get() + i * kStride, kJoinedBytesMax};
    headers_[i].msg_hdr.msg_name = &place.sender.any;
    headers_[i].msg_hdr.msg_iov = &place.bytes;
    headers_[i].msg_hdr.msg_iovlen = 1;
    headers_[i].msg_hdr.msg_control = place.control.data();
  }
}

std::uint32_t UdpReceiver::take(FramePool& pool, Frame** frames, std::uint32_t max,
                                QueueCounters& counters) {
  std::uint32_t count = 0;
  std::uint32_t thrown_away = 0;
  drained_ = false;
  while (count + thrown_away < max && (holds_any() || (!drained_ && fetch(counters)))) {
    const std::byte* before = messages_[next_].at;
    const std::uint32_t made = cut(pool, frames + count, max - count, counters);
    if (holds_any() && messages_[next_].at == before) {
      break;  // the pool is empty
    }
    count += made;
    thrown_away += made == 0 ? 1 : 0;
  }
  return count;
}

std::uint32_t UdpReceiver::take_errors(FramePool& pool, Frame** frames, std::uint32_t max) const {
  return take_udp_errors(descriptor_, address_, pool, frames, max);
}

// One system call. False: nothing there.
bool UdpReceiver::fetch(QueueCounters& counters) {
  const unsigned wanted = singles_ ? kSinglesMax : kJoinedMax;
  for (unsigned i = 0; i < wanted; ++i) {
    headers_[i].msg_hdr.msg_namelen = sizeof(places_[i].sender.ipv6);
    headers_[i].msg_hdr.msg_controllen = places_[i].control.size();
  }
  const int received = ::recvmmsg(descriptor_, headers_.data(), wanted, MSG_DONTWAIT, nullptr);
  if (received < 0) {
    failed_ |= errno != EAGAIN;
    return false;
  }
  next_ = 0;
  count_ = static_cast<std::uint32_t>(received);
  drained_ = count_ < wanted;
  singles_ = true;
  for (std::uint32_t i = 0; i < count_; ++i) {
    messages_[i] = read(headers_[i].msg_hdr, headers_[i].msg_len, counters);
    messages_[i].at = static_cast<const std::byte*>(places_[i].bytes.iov_base);
    singles_ &= messages_[i].segment >= messages_[i].left;
  }
  return true;
}

// A socket's buffer is the last queue on the path: after it has overflowed, it marks the frames
// that follow, as a switch does, and the queue pair asks the sender to slow down.
UdpReceiver::Message UdpReceiver::read(const msghdr& header, std::size_t length,
                                       QueueCounters& counters) {
  const auto& sender = *static_cast<const sockaddr*>(header.msg_name);
  Message message{.left = length,
                  .segment = length,
                  .path = {.source = gid_of(sender), .destination = address_},
                  .source_port = port_of(sender)};
  bool overflowed = false;
  auto* parts = const_cast<msghdr*>(&header);  // CMSG_NXTHDR() requires non-const
  for (cmsghdr* at = CMSG_FIRSTHDR(parts); at != nullptr; at = CMSG_NXTHDR(parts, at)) {
    const int level = at->cmsg_level;
    const int type = at->cmsg_type;
    if (level == SOL_UDP && type == UDP_GRO) {
      message.segment = static_cast<std::size_t>(std::max(value_of<int>(*at), 1));
    } else if (level == IPPROTO_IP && type == IP_TOS) {
      message.path.tos = value_of<std::uint8_t>(*at);
    } else if (level == IPPROTO_IPV6 && type == IPV6_TCLASS) {
      message.path.tos = static_cast<std::uint8_t>(value_of<int>(*at));
    } else if ((level == IPPROTO_IP && type == IP_TTL) ||
               (level == IPPROTO_IPV6 && type == IPV6_HOPLIMIT)) {
      message.path.hop_limit = static_cast<std::uint8_t>(value_of<int>(*at));
    } else if (level == SOL_SOCKET && type == SO_RXQ_OVFL) {
      const auto overflows = value_of<std::uint32_t>(*at);
      counters.missed(overflows - overflows_);
      overflowed = overflows != overflows_;
      overflows_ = overflows;
    }
  }
  message.path.tos = overflowed ? marked_by_full_queue(message.path.tos) : message.path.tos;
  return message;
}

// Cuts the next message into frames. A datagram larger than any frame violates the MTU and is
// dropped.
std::uint32_t UdpReceiver::cut(FramePool& pool, Frame** frames, std::uint32_t max,
                               QueueCounters& counters) {
  Message& message = messages_[next_];
  if (message.left == 0) {
    ++next_;
    return 0;
  }
  if (message.segment + datagram_headers(message.path.source.is_ipv4()) > pool.capacity()) {
    counters.missed(1);
    ++next_;
    return 0;
  }
  const std::size_t left = (message.left + message.segment - 1) / message.segment;
  const auto wanted = static_cast<std::uint32_t>(std::min<std::size_t>(max, left));
  const std::uint32_t count = pool.allocate(frames, wanted);
  const DatagramHeaders headers(message.path, message.source_port);
  std::uint32_t solved = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::size_t size = std::min(message.segment, message.left);
    const IpId id = build_frame(*frames[i], headers, {message.at, size}, &message.ip_id);
    solved += id == IpId::kSolved ? 1 : 0;
    ++message.ip_id;  // Linux's value for the next segment of a call
    message.at += size;
    message.left -= size;
  }
  next_ += message.left == 0 ? 1 : 0;
  counters.received(frames, count);
  counters.solved(solved);
  return count;
}

}  // namespace uroce
