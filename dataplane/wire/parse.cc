// From bytes to a Packet. Every length that is used was compared with what is really there before;
// each step narrows the span that the next one may look at.

#include <array>
#include <cstring>
#include <span>

#include "dataplane/wire/frame.h"
#include "dataplane/wire/icrc.h"
#include "dataplane/wire/layout.h"
#include "dataplane/wire/packet.h"

namespace uroce {
namespace {

using namespace layout;
using Bytes = std::span<const std::byte>;

// Whether an IPv4 header's checksum is right: the one's complement sum of its words is then 0xFFFF
// (RFC 791), which is to say that their sum is a multiple of that; and so is that of words of
// 32 bits. It isn't 0, as the version isn't.
// REQUIRES: length is a multiple of 4, and no less than a header without options has.
bool checksum_is_right(const std::byte* header, std::size_t length) {
  // The words of a header without options, two at a time.
  std::array<std::uint64_t, 2> pairs;
  std::uint32_t word = 0;
  std::memcpy(pairs.data(), header, sizeof(pairs));
  std::memcpy(&word, header + sizeof(pairs), sizeof(word));
  std::uint64_t sum = (pairs[0] & 0xFFFF'FFFF) + (pairs[0] >> 32U) + (pairs[1] & 0xFFFF'FFFF) +
                      (pairs[1] >> 32U) + word;
  for (std::size_t i = sizeof(Ipv4); i < length; i += sizeof(word)) {
    std::memcpy(&word, header + i, sizeof(word));
    sum += word;
  }
  return sum % 0xFFFF == 0;
}

// Leaves in `bytes` what the IP header says follows it.
Drop parse_ipv4(Packet& packet, Bytes& bytes) {
  if (bytes.size() < sizeof(Ipv4)) {
    return Drop::kTruncated;
  }
  const auto& ip = view<Ipv4>(bytes.data());
  const std::size_t header_length = (ip.version_ihl.load() & 0x0FU) * std::size_t{4};
  if ((ip.version_ihl.load() >> 4U) != 4 || header_length < sizeof(Ipv4)) {
    return Drop::kBadIpHeader;
  }
  if (bytes.size() < header_length) {
    return Drop::kTruncated;
  }
  if (!checksum_is_right(bytes.data(), header_length) ||
      (ip.fragment.load() & kFragmentMask) != 0 || ip.total_length.load() < header_length) {
    return Drop::kBadIpHeader;
  }
  if (ip.total_length.load() > bytes.size()) {
    return Drop::kTruncated;
  }
  if (ip.protocol.load() != kIpProtocolUdp) {
    return Drop::kNotRoce;
  }
  // Nobody sends RoCEv2 with IP options, and the ICRC's masks have no place for them.
  if (header_length != sizeof(Ipv4)) {
    return Drop::kBadIpHeader;
  }
  packet.ip_version = 4;
  packet.tos = ip.tos.load();
  bytes = bytes.first(ip.total_length.load()).subspan(sizeof(Ipv4));
  return Drop::kNone;
}

Drop parse_ipv6(Packet& packet, Bytes& bytes) {
  if (bytes.size() < sizeof(Ipv6)) {
    return Drop::kTruncated;
  }
  const auto& ip = view<Ipv6>(bytes.data());
  const std::uint32_t first_word = ip.version_class_flow.load();
  if ((first_word >> 28U) != 6) {
    return Drop::kBadIpHeader;
  }
  bytes = bytes.subspan(sizeof(Ipv6));
  if (ip.payload_length.load() > bytes.size()) {
    return Drop::kTruncated;
  }
  // Extension headers and fragments too: whatever they carry isn't RoCEv2.
  if (ip.next_header.load() != kIpProtocolUdp) {
    return Drop::kNotRoce;
  }
  // An IPv4-mapped address stands for IPv4 inside a machine and never on the wire. Here it would
  // let IPv6 packets pass for an IPv4 peer's, whose GID is the same.
  if (is_ipv4_mapped(ip.source) || is_ipv4_mapped(ip.destination)) {
    return Drop::kBadIpHeader;
  }
  packet.ip_version = 6;
  packet.tos = static_cast<std::uint8_t>(first_word >> 20U);
  bytes = bytes.first(ip.payload_length.load());
  return Drop::kNone;
}

// The UDP checksum isn't looked at: senders leave it 0, and the ICRC is the stronger one.
Drop parse_udp(Bytes& bytes) {
  if (bytes.size() < sizeof(Udp)) {
    return Drop::kTruncated;
  }
  const auto& udp = view<Udp>(bytes.data());
  if (udp.destination_port.load() != kRoceUdpPort) {
    return Drop::kNotRoce;
  }
  if (udp.length.load() != bytes.size()) {
    return Drop::kBadUdpLength;
  }
  bytes = bytes.subspan(sizeof(Udp));
  return Drop::kNone;
}

Drop parse_transport(Packet& packet, Bytes bytes) {
  if (bytes.size() < kBthLength + kIcrcLength) {
    return Drop::kTruncated;
  }
  const auto& bth = view<Bth>(bytes.data());
  const std::uint8_t flags = bth.flags.load();
  if ((flags & kVersionMask) != 0) {
    return Drop::kBadTransportVersion;
  }
  const auto opcode = static_cast<Opcode>(bth.opcode.load());
  const OpcodeInfo& info = opcode_info(opcode);
  if (info.operation == Operation::kInvalid) {
    return Drop::kUnknownOpcode;
  }
  if (bytes.size() < info.header_length + std::size_t{kIcrcLength}) {
    return Drop::kTruncated;
  }
  // All packets are multiples of 4 bytes. Only the last of a message can have pad bytes: the others
  // are full, and every path MTU is a multiple of 4 (IBTA vol. 1, 9.2.4). A request that can't have
  // a payload, a READ for instance, but comes with one is dropped here too; other responders answer
  // it with a NAK.
  const std::size_t padded = bytes.size() - info.header_length - kIcrcLength;
  const std::size_t pad = (flags >> kPadShift) & kPadMask;
  const bool may_pad = info.payload && info.last;
  if (padded % 4 != 0 || pad > padded || (pad != 0 && !may_pad) || (padded != 0 && !info.payload)) {
    return Drop::kBadPad;
  }
  const std::uint32_t ecn_qpn = bth.ecn_qpn.load();
  const std::uint32_t ack_psn = bth.ack_psn.load();
  packet.bth = bytes.data();
  packet.payload = bytes.data() + info.header_length;
  packet.payload_length = static_cast<std::uint32_t>(padded - pad);
  packet.psn = ack_psn & kLow24;
  packet.dest_qpn = ecn_qpn & kLow24;
  packet.pkey = bth.pkey.load();
  packet.opcode = opcode;
  packet.solicited = (flags & kSolicited) != 0;
  packet.ack_request = (ack_psn & kAckRequest) != 0;
  packet.fecn = (ecn_qpn & kFecn) != 0;
  packet.becn = (ecn_qpn & kBecn) != 0;
  packet.migrated = (flags & kMigReq) != 0;
  return Drop::kNone;
}

// What nearly all frames are: untagged, IPv4 without options, whole, for RoCEv2's port. Then *bytes
// is what follows the UDP header. False: the long way finds out what it is.
bool is_plain(const Frame& frame, Bytes* bytes) {
  constexpr std::size_t kHeaders = sizeof(Ethernet) + sizeof(Ipv4) + sizeof(Udp);
  constexpr std::uint8_t kNoOptions = 0x45;
  if (frame.length < kHeaders) {
    return false;
  }
  const std::byte* const ip_bytes = frame.data + sizeof(Ethernet);
  const auto& ip = view<Ipv4>(ip_bytes);
  const auto& udp = view<Udp>(ip_bytes + sizeof(Ipv4));
  const std::size_t udp_length = udp.length.load();
  *bytes = Bytes(frame.data + kHeaders, udp_length - sizeof(Udp));
  return view<Ethernet>(frame.data).type.load() == kEtherTypeIpv4 &&
         ip.version_ihl.load() == kNoOptions && (ip.fragment.load() & kFragmentMask) == 0 &&
         ip.protocol.load() == kIpProtocolUdp && udp.destination_port.load() == kRoceUdpPort &&
         ip.total_length.load() == sizeof(Ipv4) + udp_length && udp_length >= sizeof(Udp) &&
         sizeof(Ethernet) + sizeof(Ipv4) + udp_length <= frame.length &&
         checksum_is_right(ip_bytes, sizeof(Ipv4));
}

// As parse_headers(), in what lies at frame.data.
Drop find_headers(Frame& frame) {
  Packet& packet = frame.packet;
  if (Bytes transport; is_plain(frame, &transport)) [[likely]] {
    packet.ip = frame.data + sizeof(Ethernet);
    packet.ethernet_length = Packet::kUntagged;
    packet.ip_version = 4;
    packet.tos = view<Ipv4>(packet.ip).tos.load();
    return parse_transport(packet, transport);
  }
  Bytes bytes(frame.data, frame.length);
  if (bytes.size() < sizeof(Ethernet) + sizeof(Vlan)) {
    return Drop::kTruncated;  // nothing of use is that short, tagged or not
  }
  std::uint16_t type = view<Ethernet>(bytes.data()).type.load();
  std::size_t length = sizeof(Ethernet);
  if (type == kEtherTypeVlan) {
    type = view<Vlan>(bytes.data() + length).type.load();
    length += sizeof(Vlan);
  }
  bytes = bytes.subspan(length);
  packet.ethernet_length = static_cast<std::uint8_t>(length);
  packet.ip = bytes.data();
  Drop drop = Drop::kNotRoce;
  if (type == kEtherTypeIpv4) {
    drop = parse_ipv4(packet, bytes);
  } else if (type == kEtherTypeIpv6) {
    drop = parse_ipv6(packet, bytes);
  }
  if (drop != Drop::kNone) {
    return drop;
  }
  drop = parse_udp(bytes);
  return drop != Drop::kNone ? drop : parse_transport(packet, bytes);
}

}  // namespace

Drop parse_headers(Frame& frame) {
  const Drop drop = find_headers(frame);
  if (frame.lent != nullptr && drop == Drop::kNone) {
    frame.packet.payload = frame.lent + (frame.packet.payload - frame.data);
  }
  return drop;
}

// The IP header lies within the frame: parse_headers has looked at that before it said kNotRoce.
bool is_host_frame(const Frame& frame) {
  const std::byte* ip = frame.packet.ip;
  switch (view<Be16>(ip - sizeof(Be16)).load()) {
    case kEtherTypeArp:
      return true;
    case kEtherTypeIpv4: {
      const std::uint8_t protocol = view<Ipv4>(ip).protocol.load();
      return protocol == kIpProtocolIcmp || protocol == kIpProtocolIgmp;
    }
    case kEtherTypeIpv6: {
      const auto& header = view<Ipv6>(ip);
      const std::uint8_t next = header.next_header.load();
      return next == kIpProtocolIcmpV6 || next == kIpProtocolHopByHop;
    }
    default:
      return false;
  }
}

namespace {

// Behind the pad bytes: parse_headers() has seen that they make the payload a multiple of 4.
const std::byte* icrc_place(const Packet& packet) {
  constexpr std::size_t kMultiple = 4;
  return packet.payload + (packet.payload_length + kMultiple - 1) / kMultiple * kMultiple;
}

// Where the payload isn't behind its headers but where it was lent.
[[gnu::noinline]] std::uint32_t icrc_of_pieces(const Packet& packet, const std::byte* end) {
  const std::size_t headers =
      static_cast<std::size_t>(packet.bth - packet.ip) + opcode_info(packet.opcode).header_length;
  return icrc_end(crc32_update(icrc_begin(packet.ip, packet.ip_version == 6, headers),
                               packet.payload, static_cast<std::size_t>(end - packet.payload)));
}

std::uint32_t icrc_of(const Packet& packet) {
  const std::byte* const end = icrc_place(packet);
  // What was lent is farther away than all headers are long.
  const bool one_piece =
      static_cast<std::size_t>(packet.payload - packet.bth) < std::size_t{Frame::kHeadBytes};
  if (one_piece) [[likely]] {
    return icrc_end(
        icrc_begin(packet.ip, packet.ip_version == 6, static_cast<std::size_t>(end - packet.ip)));
  }
  return icrc_of_pieces(packet, end);
}

}  // namespace

bool icrc_is_right(const Packet& packet) {
  std::uint32_t stored = 0;
  std::memcpy(&stored, icrc_place(packet), sizeof(stored));
  return icrc_of(packet) == stored;
}

void complete(Frame& frame) {
  gather(frame);
  if (!frame.icrc_left_out || parse_headers(frame) != Drop::kNone) {
    return;
  }
  const std::uint32_t icrc = icrc_of(frame.packet);
  std::memcpy(frame.data + (icrc_place(frame.packet) - frame.data), &icrc, sizeof(icrc));
  frame.icrc_left_out = false;
  frame.icrc_checked = true;
}

// In one piece with what it calls: each frame goes through it.
[[gnu::flatten]] Drop parse(Frame& frame) {
  const Drop drop = parse_headers(frame);
  if (drop != Drop::kNone) {
    return drop;
  }
  return frame.icrc_checked || frame.icrc_left_out || icrc_is_right(frame.packet) ? Drop::kNone
                                                                                  : Drop::kBadIcrc;
}

}  // namespace uroce
