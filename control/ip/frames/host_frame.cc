#include "control/ip/frames/host_frame.h"

namespace uroce::control {

std::optional<EthernetFrame> parse_ethernet(std::span<const std::byte> frame) {
  ByteReader reader(frame);
  EthernetFrame parsed;
  reader.read(parsed.destination.bytes);
  reader.read(parsed.source.bytes);
  parsed.type = reader.u16();
  if (parsed.type == kEtherTypeVlan) {
    parsed.vlan = reader.u16();
    parsed.type = reader.u16();
  }
  parsed.payload = reader.rest();
  if (reader.failed() || parsed.source.is_multicast()) {
    return std::nullopt;
  }
  return parsed;
}

void write_ethernet(ByteWriter* writer, const EtherAddress& destination, const EtherAddress& source,
                    std::uint16_t vlan, std::uint16_t type) {
  writer->write(destination.bytes);
  writer->write(source.bytes);
  if (vlan != 0) {
    writer->u16(kEtherTypeVlan);
    writer->u16(vlan);
  }
  writer->u16(type);
}

Gid read_ipv4(ByteReader* reader) {
  std::array<std::uint8_t, 4> address;
  reader->read(address);
  return mapped_gid(address);
}

std::uint32_t pseudo_header_sum(const Gid& source, const Gid& destination, std::size_t length) {
  std::uint32_t sum = checksum_add(std::as_bytes(std::span(source.bytes)));
  sum = checksum_add(std::as_bytes(std::span(destination.bytes)), sum);
  return sum + static_cast<std::uint32_t>(length) + kIpProtocolIcmpV6;
}

std::optional<Ipv6Packet> parse_ipv6(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Ipv6Packet packet;
  const std::uint32_t version = reader.u32() >> 28U;
  const std::size_t length = reader.u16();
  packet.next_header = reader.u8();
  packet.hop_limit = reader.u8();
  reader.read(packet.source.bytes);
  reader.read(packet.destination.bytes);
  if (reader.failed() || version != 6 || length > reader.rest().size()) {
    return std::nullopt;
  }
  packet.payload = reader.rest().first(length);  // short frames are padded behind it
  return packet;
}

void write_ipv6(ByteWriter* writer, const Gid& source, const Gid& destination,
                std::uint8_t next_header, std::uint8_t hop_limit, std::size_t payload_length) {
  writer->u32(6U << 28U);
  writer->u16(static_cast<std::uint32_t>(payload_length));
  writer->u8(next_header);
  writer->u8(hop_limit);
  writer->write(source.bytes);
  writer->write(destination.bytes);
}

std::optional<Ipv6Packet> parse_icmpv6(const EthernetFrame& frame) {
  const auto packet = parse_ipv6(frame.payload);
  if (!packet || packet->next_header != kIpProtocolIcmpV6) {
    return std::nullopt;
  }
  const std::uint32_t sum =
      checksum_add(packet->payload,
                   pseudo_header_sum(packet->source, packet->destination, packet->payload.size()));
  return checksum_finish(sum) == 0 ? packet : std::nullopt;
}

void finish_icmpv6(ByteWriter* writer, std::size_t offset, const Gid& source,
                   const Gid& destination) {
  constexpr std::size_t kChecksumOffset = 2;
  const auto message = writer->from(offset);
  const std::uint32_t sum =
      checksum_add(message, pseudo_header_sum(source, destination, message.size()));
  writer->store_u16(offset + kChecksumOffset, checksum_finish(sum));
}

}  // namespace uroce::control
