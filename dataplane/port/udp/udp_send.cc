#include "dataplane/port/udp/udp_send.h"

#include <netinet/udp.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "dataplane/port/socket_address.h"
#include "dataplane/wire/headers.h"

namespace uroce {
namespace {

// Space for three control messages of at most an int.
struct Control {
  alignas(cmsghdr) std::array<std::byte, 3 * CMSG_SPACE(sizeof(int))> bytes{};
  std::size_t length = 0;

  template <typename T>
  void add(int level, int type, T value) {
    auto* header = reinterpret_cast<cmsghdr*>(bytes.data() + length);
    header->cmsg_level = level;
    header->cmsg_type = type;
    header->cmsg_len = CMSG_LEN(sizeof(value));
    std::memcpy(CMSG_DATA(header), &value, sizeof(value));
    length += CMSG_SPACE(sizeof(value));
  }
};

void add_path(Control& control, const DatagramPath& path) {
  if (path.source.is_ipv4()) {
    control.add(IPPROTO_IP, IP_TOS, int{path.tos});
    control.add(IPPROTO_IP, IP_TTL, int{path.hop_limit});
  } else {
    control.add(IPPROTO_IPV6, IPV6_TCLASS, int{path.tos});
    control.add(IPPROTO_IPV6, IPV6_HOPLIMIT, int{path.hop_limit});
  }
}

// Examines the first frame, and those after it that one call can send with it: the same path, and
// the same size, except for a shorter last one. Returns their number.
std::uint32_t join(std::span<Frame* const> frames, std::uint32_t most, Datagram* datagrams) {
  // Without payload: not a sendable datagram.
  datagrams[0] = datagram_of(*frames[0]).value_or(Datagram{});
  const std::size_t size = datagrams[0].payload.size();
  if (size == 0) {
    return 1;
  }
  const auto fitting = std::min<std::size_t>(most, UdpSender::kJoinedBytesMax / size);
  const std::size_t limit = std::clamp<std::size_t>(fitting, 1, frames.size());
  std::uint32_t count = 1;
  while (count < limit) {
    const auto payload = payload_on_same_path(*frames[count], *frames[0]);
    if (payload.empty() || payload.size() > size) {
      break;
    }
    datagrams[count++] = {datagrams[0].path, payload};
    if (payload.size() < size) {
      break;
    }
  }
  return count;
}

}  // namespace

const UdpSender::Source* UdpSender::source_of(const Gid& address) const {
  const auto found = std::find_if(sources_.begin(), sources_.end(),
                                  [&](const Source& source) { return source.address == address; });
  return found == sources_.end() ? nullptr : &*found;
}

std::uint32_t UdpSender::send(std::span<Frame* const> frames, QueueCounters& counters) {
  std::uint32_t done = 0;
  while (done < frames.size()) {
    const auto some = frames.subspan(done, std::min<std::size_t>(frames.size() - done, kBurstMax));
    const std::uint32_t count = send_some(some, counters);
    done += count;
    if (count < some.size()) {
      break;
    }
  }
  return done;
}

// REQUIRES: at most kBurstMax frames.
std::uint32_t UdpSender::send_some(std::span<Frame* const> frames, QueueCounters& counters) {
  std::array<Datagram, kBurstMax> datagrams;
  std::uint32_t done = 0;
  std::uint32_t singly_until = 0;
  while (done < frames.size()) {
    const std::uint32_t most = done < singly_until ? 1 : segments_max_;
    const std::uint32_t count = join(frames.subspan(done), most, datagrams.data());
    const auto group = frames.subspan(done, count);
    switch (send_joined(group, {datagrams.data(), count})) {
      case Outcome::kSent:
        counters.sent(group.data(), count);
        break;
      case Outcome::kFull:
        return done;
      case Outcome::kFailed:
        counters.failed(count);
        break;
      case Outcome::kNotJoined:
        singly_until = done + count;
        continue;
    }
    done += count;
  }
  return done;
}

UdpSender::Outcome UdpSender::send_joined(std::span<Frame* const> frames,
                                          std::span<const Datagram> datagrams) {
  const DatagramPath& path = datagrams.front().path;
  const Source* source = source_of(path.source);
  if (source == nullptr || datagrams.front().payload.empty()) {
    return Outcome::kFailed;
  }
  std::array<iovec, kSegmentsMax> pieces;
  for (std::size_t i = 0; i < datagrams.size(); ++i) {
    set_kernel_fields(*frames[i], datagrams[i], kRoceUdpPort, static_cast<std::uint16_t>(i),
                      id_changes_);
    pieces[i] = {datagrams[i].payload.data(), datagrams[i].payload.size()};
  }
  SocketAddress destination(path.destination, kRoceUdpPort, source->scope);
  Control control;
  add_path(control, path);
  if (datagrams.size() > 1) {
    control.add(SOL_UDP, UDP_SEGMENT, static_cast<std::uint16_t>(datagrams[0].payload.size()));
  }
  const msghdr message{.msg_name = &destination.any,
                       .msg_namelen = destination.length,
                       .msg_iov = pieces.data(),
                       .msg_iovlen = datagrams.size(),
                       .msg_control = control.bytes.data(),
                       .msg_controllen = control.length,
                       .msg_flags = 0};
  // The first attempt may fail with the error of an earlier datagram.
  ssize_t sent = ::sendmsg(source->descriptor, &message, MSG_DONTWAIT);
  if (sent < 0 && errno != EAGAIN && errno != ENOBUFS) {
    failed_ = true;
    sent = ::sendmsg(source->descriptor, &message, MSG_DONTWAIT);
  }
  if (sent >= 0) {
    return Outcome::kSent;
  }
  if (errno == EAGAIN || errno == ENOBUFS) {
    return Outcome::kFull;
  }
  // EIO: the interface can't checksum segmented datagrams. EINVAL, EMSGSIZE: a limit of this path.
  if (datagrams.size() > 1 && (errno == EIO || errno == EINVAL || errno == EMSGSIZE)) {
    segments_max_ = errno == EIO ? 1 : segments_max_;
    return Outcome::kNotJoined;
  }
  return Outcome::kFailed;
}

}  // namespace uroce
