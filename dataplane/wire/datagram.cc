// Frames from and to UDP payload.

#include "dataplane/wire/datagram.h"

#include <algorithm>
#include <cstring>

#include "dataplane/wire/icrc.h"
#include "dataplane/wire/icrc_change.h"
#include "dataplane/wire/layout.h"

namespace uroce {
namespace {

using namespace layout;

constexpr std::size_t kPayloadMin = kBthLength + kIcrcLength;

std::array<std::byte, 6> mac_bytes(const Gid& gid) {
  return std::bit_cast<std::array<std::byte, 6>>(stand_in_mac(gid));
}

template <std::size_t kSize>
Gid gid_of(const std::array<std::byte, kSize>& address) {
  Gid gid;
  if constexpr (kSize == sizeof(std::uint32_t)) {
    gid.bytes[10] = gid.bytes[11] = 0xFF;
  }
  std::memcpy(gid.bytes.data() + gid.bytes.size() - kSize, address.data(), kSize);
  return gid;
}

// Whether the ICRC ends where a change of headers can be followed to: it covers a multiple of four
// bytes, as it does in every packet that is one.
bool can_change(std::size_t covered) { return covered % 4 == 0 && covered <= kIcrcDistanceMax; }

std::uint32_t stored_icrc(std::span<const std::byte> payload) {
  std::uint32_t stored = 0;
  std::memcpy(&stored, payload.data() + payload.size() - sizeof(stored), sizeof(stored));
  return stored;
}

void store_ipv4_checksum(Ipv4& ip) {
  ip.checksum.store(0);
  std::uint32_t sum = 0;
  for (std::size_t at = 0; at < sizeof(Ipv4); at += sizeof(Be16)) {
    sum += view<Be16>(reinterpret_cast<const std::byte*>(&ip) + at).load();
  }
  sum = (sum & 0xFFFFU) + (sum >> 16U);
  sum = (sum & 0xFFFFU) + (sum >> 16U);
  ip.checksum.store(static_cast<std::uint16_t>(~sum));
}

// With lengths of nothing, so that only those are to be added.
void write_ip(std::byte* at, const DatagramPath& path) {
  if (path.source.is_ipv4()) {
    auto& ip = view<Ipv4>(at);
    ip = Ipv4{};
    ip.version_ihl.store(0x45);
    ip.tos.store(path.tos);
    ip.fragment.store(kDontFragment);
    ip.ttl.store(path.hop_limit);
    ip.protocol.store(kIpProtocolUdp);
    ip.source = last_bytes<4>(path.source);
    ip.destination = last_bytes<4>(path.destination);
    return;
  }
  auto& ip = view<Ipv6>(at);
  ip.version_class_flow.store(0x6000'0000U | (std::uint32_t{path.tos} << 20U));
  ip.next_header.store(kIpProtocolUdp);
  ip.hop_limit.store(path.hop_limit);
  ip.source = last_bytes<16>(path.source);
  ip.destination = last_bytes<16>(path.destination);
}

}  // namespace

std::optional<Datagram> datagram_of(Frame& frame) {
  const std::span<std::byte> bytes(frame.data, frame.length);
  if (bytes.size() < sizeof(Ethernet) + sizeof(Ipv4)) {
    return std::nullopt;
  }
  const std::uint16_t type = view<Ethernet>(bytes.data()).type.load();
  const std::span<std::byte> packet = bytes.subspan(sizeof(Ethernet));
  Datagram datagram;
  std::size_t headers = sizeof(Udp);
  std::uint8_t protocol = 0;
  if (type == kEtherTypeIpv4) {
    const auto& ip = view<Ipv4>(packet.data());
    datagram.path = {gid_of(ip.source), gid_of(ip.destination), ip.tos.load(), ip.ttl.load()};
    protocol = ip.protocol.load();
    headers += sizeof(Ipv4);
  } else if (type == kEtherTypeIpv6 && packet.size() >= sizeof(Ipv6)) {
    const auto& ip = view<Ipv6>(packet.data());
    datagram.path = {gid_of(ip.source), gid_of(ip.destination),
                     static_cast<std::uint8_t>(ip.version_class_flow.load() >> 20U),
                     ip.hop_limit.load()};
    protocol = ip.next_header.load();
    headers += sizeof(Ipv6);
  }
  if (protocol != kIpProtocolUdp || packet.size() < headers + kPayloadMin ||
      view<Udp>(packet.data() + headers - sizeof(Udp)).destination_port.load() != kRoceUdpPort) {
    return std::nullopt;
  }
  datagram.payload = packet.subspan(headers);
  return datagram;
}

std::span<std::byte> payload_on_same_path(Frame& frame, const Frame& other) {
  const auto equal = [&](std::size_t at, std::size_t size) {
    return std::memcmp(frame.data + at, other.data + at, size) == 0;
  };
  constexpr std::size_t kIp = sizeof(Ethernet);
  constexpr std::size_t kType = offsetof(Ethernet, type);
  const bool ipv4 = view<Ethernet>(other.data).type.load() == kEtherTypeIpv4;
  const std::size_t headers = datagram_headers(ipv4);
  const std::size_t port = headers - sizeof(Udp) + offsetof(Udp, destination_port);
  if (frame.length < headers + kPayloadMin || !equal(port, sizeof(Be16))) {
    return {};
  }
  // The type of the packet and what stands in front of its length; what stands behind it and names
  // the path.
  const bool same =
      ipv4 ? equal(kType, kIp + offsetof(Ipv4, total_length) - kType) &&
                 equal(kIp + offsetof(Ipv4, ttl), sizeof(Ipv4::ttl) + sizeof(Ipv4::protocol)) &&
                 equal(kIp + offsetof(Ipv4, source), 2 * sizeof(Ipv4::source))
           : equal(kType, kIp + offsetof(Ipv6, payload_length) - kType) &&
                 equal(kIp + offsetof(Ipv6, next_header),
                       sizeof(Ipv6) - offsetof(Ipv6, next_header));
  return same ? std::span(frame.data, frame.length).subspan(headers) : std::span<std::byte>{};
}

void set_kernel_fields(Frame& frame, const Datagram& datagram, std::uint16_t source_port,
                       std::uint16_t ip_id) {
  std::byte* ip = frame.data + sizeof(Ethernet);
  auto& udp = view<Udp>(datagram.payload.data() - sizeof(Udp));
  const auto covered = static_cast<std::size_t>(datagram.payload.data() - ip) +
                       datagram.payload.size() - kIcrcLength;
  if (!can_change(covered)) {
    return;
  }
  const std::uint16_t port_change = udp.source_port.load() ^ source_port;
  const auto to_udp = static_cast<std::size_t>(reinterpret_cast<std::byte*>(&udp) - ip);
  std::uint32_t change = 0;
  if (port_change != 0) {
    change ^= icrc_change(port_change, covered - to_udp);
    udp.source_port.store(source_port);
  }
  if (datagram.path.source.is_ipv4()) {
    auto& header = view<Ipv4>(ip);
    const std::uint16_t id_change = header.identification.load() ^ ip_id;
    change ^=
        id_change == 0 ? 0U : icrc_change(id_change, covered - offsetof(Ipv4, identification));
    header.identification.store(ip_id);
    store_ipv4_checksum(header);
  }
  const std::uint32_t icrc = stored_icrc(datagram.payload) ^ change;
  std::memcpy(datagram.payload.data() + datagram.payload.size() - kIcrcLength, &icrc, sizeof(icrc));
}

DatagramHeaders::DatagramHeaders(const DatagramPath& path, std::uint16_t source_port)
    : ipv6_(!path.source.is_ipv4()) {
  auto& ethernet = view<Ethernet>(bytes_.data());
  ethernet.destination = mac_bytes(path.destination);
  ethernet.source = mac_bytes(path.source);
  ethernet.type.store(ipv6_ ? kEtherTypeIpv6 : kEtherTypeIpv4);
  std::byte* ip = bytes_.data() + sizeof(Ethernet);
  write_ip(ip, path);
  auto& udp = view<Udp>(ip + (ipv6_ ? sizeof(Ipv6) : sizeof(Ipv4)));
  udp.source_port.store(source_port);
  udp.destination_port.store(kRoceUdpPort);
  udp.checksum.store(0);  // the kernel has looked at it
}

void DatagramHeaders::write(std::byte* at, std::size_t payload_length) const {
  std::byte* ip = at + sizeof(Ethernet);
  const auto udp_length = static_cast<std::uint16_t>(sizeof(Udp) + payload_length);
  std::memcpy(at, bytes_.data(), datagram_headers(!ipv6_));
  if (ipv6_) {
    view<Ipv6>(ip).payload_length.store(udp_length);
    view<Udp>(ip + sizeof(Ipv6)).length.store(udp_length);
  } else {
    auto& header = view<Ipv4>(ip);
    header.total_length.store(static_cast<std::uint16_t>(sizeof(Ipv4) + udp_length));
    store_ipv4_checksum(header);
    view<Udp>(ip + sizeof(Ipv4)).length.store(udp_length);
  }
}

IpId build_frame(Frame& frame, const DatagramHeaders& common, std::span<const std::byte> payload) {
  const bool ipv6 = common.ipv6();
  common.write(frame.data, payload.size());
  std::byte* ip = frame.data + sizeof(Ethernet);
  const std::size_t headers = (ipv6 ? sizeof(Ipv6) : sizeof(Ipv4)) + sizeof(Udp);
  std::byte* body = ip + headers;
  frame.length = static_cast<std::uint32_t>(sizeof(Ethernet) + headers + payload.size());
  frame.icrc_checked = false;
  const std::size_t covered =
      headers + payload.size() - std::min<std::size_t>(payload.size(), kIcrcLength);
  if (payload.size() < kPayloadMin || !can_change(covered)) {
    std::copy(payload.begin(), payload.end(), body);
    return IpId::kUnknown;
  }
  // The mask of the ICRC reaches into the BTH; what follows is summed while it is copied.
  std::memcpy(body, payload.data(), kBthLength);
  std::uint32_t sum = icrc_begin(ip, ipv6, headers + kBthLength);
  sum = crc32_copy(sum, body + kBthLength, payload.data() + kBthLength,
                   payload.size() - kBthLength - kIcrcLength);
  const std::uint32_t stored = stored_icrc(payload);
  std::memcpy(ip + covered, &stored, sizeof(stored));
  const std::uint32_t difference = icrc_end(sum) ^ stored;
  if (difference == 0) {
    frame.icrc_checked = true;
    return IpId::kAsExpected;
  }
  const auto id =
      ipv6 ? std::nullopt : solve_icrc_change(difference, covered - offsetof(Ipv4, identification));
  if (!id) {
    return IpId::kUnknown;
  }
  auto& header = view<Ipv4>(ip);
  header.identification.store(*id);
  store_ipv4_checksum(header);
  frame.icrc_checked = true;
  return IpId::kSolved;
}

}  // namespace uroce
