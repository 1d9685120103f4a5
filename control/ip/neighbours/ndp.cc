#include "control/ip/neighbours/ndp.h"

#include "control/ip/addresses/gid_table.h"

namespace uroce::control {
namespace {

constexpr std::uint8_t kSolicitation = 135;
constexpr std::uint8_t kAdvertisement = 136;
constexpr std::uint8_t kNdpHopLimit = 255;  // proves that it comes from the local link
constexpr std::uint8_t kSourceLinkAddress = 1;
constexpr std::uint8_t kTargetLinkAddress = 2;
constexpr std::uint32_t kSolicited = 1U << 30U;
constexpr std::uint32_t kOverride = 1U << 29U;
constexpr Gid kAllNodes{{0xFF, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};

Gid solicited_node(const Gid& target) {
  const auto& t = target.bytes;
  return Gid{{0xFF, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xFF, t[13], t[14], t[15]}};
}

struct Message {
  std::uint8_t type = 0;
  std::uint32_t flags = 0;
  Gid target;
  std::uint8_t option = 0;  // the kind of link address that follows
};

struct Ends {
  EtherAddress source_mac, destination_mac;
  Gid source, destination;
  std::uint16_t vlan = 0;
};

FrameBytes build(const Ends& ends, const Message& message) {
  constexpr std::size_t kLength = 32;
  ByteWriter writer;
  write_ethernet(&writer, ends.destination_mac, ends.source_mac, ends.vlan, kEtherTypeIpv6);
  write_ipv6(&writer, ends.source, ends.destination, kIpProtocolIcmpV6, kNdpHopLimit, kLength);
  const std::size_t offset = writer.size();
  writer.u8(message.type);
  writer.u8(0);
  writer.u16(0);  // checksum
  writer.u32(message.flags);
  writer.write(message.target.bytes);
  writer.u8(message.option);
  writer.u8(1);  // length in units of 8 bytes
  writer.write(ends.source_mac.bytes);
  finish_icmpv6(&writer, offset, ends.source, ends.destination);
  return writer.take();
}

// The requested link address among the options. False: an option has length 0, which makes the
// whole message invalid.
bool read_options(std::span<const std::byte> bytes, std::uint8_t wanted,
                  std::optional<EtherAddress>* address) {
  while (!bytes.empty()) {
    ByteReader reader(bytes);
    const std::uint8_t type = reader.u8();
    const std::size_t length = std::size_t{reader.u8()} * 8;
    if (reader.failed() || length == 0 || length > bytes.size()) {
      return false;
    }
    if (type == wanted && length == 8) {
      reader.read(address->emplace().bytes);
    }
    bytes = bytes.subspan(length);
  }
  return true;
}

}  // namespace

std::optional<NeighbourMessage> parse_neighbour_message(const EthernetFrame& frame) {
  if (frame.type != kEtherTypeIpv6) {
    return std::nullopt;
  }
  const auto packet = parse_icmpv6(frame);
  if (!packet || packet->hop_limit != kNdpHopLimit) {
    return std::nullopt;
  }
  ByteReader reader(packet->payload);
  const std::uint8_t type = reader.u8();
  const std::uint8_t code = reader.u8();
  reader.skip(6);  // checksum, flags
  NeighbourMessage message;
  message.solicitation = type == kSolicitation;
  message.source = packet->source;
  reader.read(message.target.bytes);
  const bool known = type == kSolicitation || type == kAdvertisement;
  if (reader.failed() || !known || code != 0 || is_multicast(message.target)) {
    return std::nullopt;
  }
  const std::uint8_t wanted = message.solicitation ? kSourceLinkAddress : kTargetLinkAddress;
  if (!read_options(reader.rest(), wanted, &message.link_address)) {
    return std::nullopt;
  }
  if (message.link_address && message.link_address->is_multicast()) {
    return std::nullopt;
  }
  return message;
}

FrameBytes build_solicitation(const EtherAddress& mac, const LinkAddress& source,
                              const Gid& target) {
  const Gid group = solicited_node(target);
  return build({.source_mac = mac,
                .destination_mac = multicast_mac(group),
                .source = source.gid,
                .destination = group,
                .vlan = source.vlan},
               {.type = kSolicitation, .target = target, .option = kSourceLinkAddress});
}

FrameBytes build_advertisement(const EthernetFrame& frame, const NeighbourMessage& solicitation,
                               const EtherAddress& mac) {
  // A node without an address yet is answered at all-nodes (RFC 4861, 7.2.4).
  const bool anonymous = solicitation.source.is_zero();
  return build({.source_mac = mac,
                .destination_mac = anonymous ? multicast_mac(kAllNodes) : frame.source,
                .source = solicitation.target,
                .destination = anonymous ? kAllNodes : solicitation.source,
                .vlan = frame.vlan},
               {.type = kAdvertisement,
                .flags = anonymous ? kOverride : kOverride | kSolicited,
                .target = solicitation.target,
                .option = kTargetLinkAddress});
}

FrameBytes build_announcement(const EtherAddress& mac, const LinkAddress& address) {
  return build({.source_mac = mac,
                .destination_mac = multicast_mac(kAllNodes),
                .source = address.gid,
                .destination = kAllNodes,
                .vlan = address.vlan},
               {.type = kAdvertisement,
                .flags = kOverride,
                .target = address.gid,
                .option = kTargetLinkAddress});
}

}  // namespace uroce::control
