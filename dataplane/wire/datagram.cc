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

// Whether the ICRC ends where a change of headers can be followed to: it covers a multiple of four
// bytes, as it does in every packet that is one.
bool can_change(std::size_t covered) { return covered % 4 == 0 && covered <= kIcrcDistanceMax; }

std::uint32_t stored_icrc(std::span<const std::byte> payload) {
  std::uint32_t stored = 0;
  std::memcpy(&stored, payload.data() + payload.size() - sizeof(stored), sizeof(stored));
  return stored;
}

// Of a header's 16-bit words, its checksum among them.
std::uint32_t ipv4_sum(const Ipv4& ip) {
  std::uint32_t sum = 0;
  for (std::size_t at = 0; at < sizeof(Ipv4); at += sizeof(Be16)) {
    sum += view<Be16>(reinterpret_cast<const std::byte*>(&ip) + at).load();
  }
  return sum;
}

// What makes the sum of all words, this one among them, that of a header that is right (RFC 1071).
std::uint16_t ipv4_checksum(std::uint32_t sum_of_others) {
  const std::uint32_t once = (sum_of_others & 0xFFFFU) + (sum_of_others >> 16U);
  return static_cast<std::uint16_t>(~((once & 0xFFFFU) + (once >> 16U)));
}

// Another identification, and the checksum that goes with it (RFC 1624, equation 3).
void store_identification(Ipv4& ip, std::uint16_t id) {
  const std::uint32_t others = static_cast<std::uint16_t>(~ip.checksum.load()) +
                               static_cast<std::uint16_t>(~ip.identification.load()) + id;
  ip.identification.store(id);
  ip.checksum.store(ipv4_checksum(others));
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
    ip.source = ipv4_of(path.source);
    ip.destination = ipv4_of(path.destination);
    return;
  }
  auto& ip = view<Ipv6>(at);
  ip.version_class_flow.store(0x6000'0000U | (std::uint32_t{path.tos} << 20U));
  ip.next_header.store(kIpProtocolUdp);
  ip.hop_limit.store(path.hop_limit);
  ip.source = path.source.bytes;
  ip.destination = path.destination.bytes;
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
    datagram.path = {mapped_gid(ip.source), mapped_gid(ip.destination), ip.tos.load(),
                     ip.ttl.load()};
    protocol = ip.protocol.load();
    headers += sizeof(Ipv4);
  } else if (type == kEtherTypeIpv6 && packet.size() >= sizeof(Ipv6)) {
    const auto& ip = view<Ipv6>(packet.data());
    datagram.path = {Gid{ip.source}, Gid{ip.destination},
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

std::uint32_t IdChanges::of(std::uint16_t change, std::size_t distance) {
  if (change >= kChanges) {
    return icrc_change(change, distance);
  }
  if (tables_[latest_].distance != distance) {
    latest_ = 1 - latest_;
    if (tables_[latest_].distance != distance) {
      tables_[latest_].fill(distance);
    }
  }
  return tables_[latest_].changes[change];
}

// What several bits do is what each of them does, exclusive-ored.
void IdChanges::Table::fill(std::size_t to) {
  distance = to;
  changes[0] = 0;
  for (std::uint16_t bit = 1; bit < kChanges; bit = static_cast<std::uint16_t>(2 * bit)) {
    changes[bit] = icrc_change(bit, to);
    for (std::uint16_t lower = 1; lower < bit; ++lower) {
      changes[bit + lower] = changes[bit] ^ changes[lower];
    }
  }
}

void set_kernel_fields(Frame& frame, const Datagram& datagram, std::uint16_t source_port,
                       std::uint16_t ip_id, IdChanges& changes) {
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
    if (id_change != 0) {
      change ^= changes.of(id_change, covered - offsetof(Ipv4, identification));
      store_identification(header, ip_id);
    }
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
  ipv4_sum_ = ipv6_ ? 0 : ipv4_sum(view<Ipv4>(ip));
  auto& udp = view<Udp>(ip + (ipv6_ ? sizeof(Ipv6) : sizeof(Ipv4)));
  udp.source_port.store(source_port);
  udp.destination_port.store(kRoceUdpPort);
  udp.checksum.store(0);  // the kernel has looked at it
}

void DatagramHeaders::write(std::byte* at, std::size_t payload_length, std::uint16_t ip_id) const {
  std::byte* ip = at + sizeof(Ethernet);
  const auto udp_length = static_cast<std::uint16_t>(sizeof(Udp) + payload_length);
  std::memcpy(at, bytes_.data(), datagram_headers(!ipv6_));
  if (ipv6_) {
    view<Ipv6>(ip).payload_length.store(udp_length);
    view<Udp>(ip + sizeof(Ipv6)).length.store(udp_length);
  } else {
    auto& header = view<Ipv4>(ip);
    const auto total_length = static_cast<std::uint16_t>(sizeof(Ipv4) + udp_length);
    header.total_length.store(total_length);
    header.identification.store(ip_id);
    header.checksum.store(ipv4_checksum(ipv4_sum_ + total_length + ip_id));
    view<Udp>(ip + sizeof(Ipv4)).length.store(udp_length);
  }
}

IpId build_frame(Frame& frame, const DatagramHeaders& common, std::span<const std::byte> payload,
                 std::uint16_t* ip_id) {
  const bool ipv6 = common.ipv6();
  common.write(frame.data, payload.size(), *ip_id);
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
  if (difference != 0) [[unlikely]] {
    const auto change =
        ipv6 ? std::nullopt
             : solve_icrc_change(difference, covered - offsetof(Ipv4, identification));
    if (!change) {
      return IpId::kUnknown;
    }
    *ip_id ^= *change;
    store_identification(view<Ipv4>(ip), *ip_id);
  }
  frame.icrc_checked = true;
  return ipv6 || *ip_id == 0 ? IpId::kZero : IpId::kSolved;
}

}  // namespace uroce
