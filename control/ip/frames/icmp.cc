#include "control/ip/frames/icmp.h"

#include "control/ip/addresses/gid_table.h"

namespace uroce::control {
namespace {

constexpr std::uint8_t kEchoRequest = 8, kEchoReply = 0;
constexpr std::uint8_t kEchoRequestV6 = 128, kEchoReplyV6 = 129;
constexpr std::uint8_t kEchoHopLimit = 64;
constexpr std::size_t kPlainIpv4Header = 20;
constexpr std::uint16_t kFragmentBits = 0x3FFF;  // more fragments, and the offset

void write_echo(ByteWriter* writer, std::uint8_t type, std::span<const std::byte> request) {
  constexpr std::size_t kAfterChecksum = 4;
  writer->u8(type);
  writer->u8(0);
  writer->u16(0);
  writer->write(request.subspan(kAfterChecksum));
}

std::optional<FrameBytes> answer_ipv4(const EthernetFrame& frame, const EtherAddress& mac,
                                      const Owns& owns) {
  ByteReader reader(frame.payload);
  const std::uint8_t version_length = reader.u8();
  const std::uint8_t tos = reader.u8();
  const std::size_t total = reader.u16();
  const std::uint16_t id = reader.u16();
  const std::uint16_t fragment = reader.u16();
  reader.skip(1);
  const std::uint8_t protocol = reader.u8();
  reader.skip(2);
  const Gid source = read_ipv4(&reader);
  const Gid destination = read_ipv4(&reader);
  // Options are rare; a packet with them isn't answered.
  if (version_length != 0x45 || total < kPlainIpv4Header + 8 || total > frame.payload.size() ||
      (fragment & kFragmentBits) != 0 || protocol != kIpProtocolIcmp ||
      checksum_finish(checksum_add(frame.payload.first(kPlainIpv4Header))) != 0) {
    return std::nullopt;
  }
  const auto request = frame.payload.subspan(kPlainIpv4Header, total - kPlainIpv4Header);
  if (request[0] != std::byte{kEchoRequest} || !owns(destination) || is_multicast(source) ||
      checksum_finish(checksum_add(request)) != 0) {
    return std::nullopt;
  }
  ByteWriter writer;
  write_ethernet(&writer, frame.source, mac, frame.vlan, kEtherTypeIpv4);
  const std::size_t ip = writer.size();
  writer.u8(0x45);
  writer.u8(tos);
  writer.u16(static_cast<std::uint32_t>(total));
  writer.u16(id);
  writer.u16(0);
  writer.u8(kEchoHopLimit);
  writer.u8(kIpProtocolIcmp);
  writer.u16(0);
  writer.write(ipv4_of(destination));
  writer.write(ipv4_of(source));
  writer.store_u16(ip + 10, checksum_finish(checksum_add(writer.from(ip))));
  const std::size_t icmp = writer.size();
  write_echo(&writer, kEchoReply, request);
  writer.store_u16(icmp + 2, checksum_finish(checksum_add(writer.from(icmp))));
  return writer.take();
}

std::optional<FrameBytes> answer_ipv6(const EthernetFrame& frame, const EtherAddress& mac,
                                      const Owns& owns) {
  const auto packet = parse_icmpv6(frame);
  if (!packet || packet->payload.size() < 8 || packet->payload[0] != std::byte{kEchoRequestV6} ||
      !owns(packet->destination) || is_multicast(packet->source) || packet->source.is_zero()) {
    return std::nullopt;
  }
  ByteWriter writer;
  write_ethernet(&writer, frame.source, mac, frame.vlan, kEtherTypeIpv6);
  write_ipv6(&writer, packet->destination, packet->source, kIpProtocolIcmpV6, kEchoHopLimit,
             packet->payload.size());
  const std::size_t offset = writer.size();
  write_echo(&writer, kEchoReplyV6, packet->payload);
  finish_icmpv6(&writer, offset, packet->destination, packet->source);
  return writer.take();
}

}  // namespace

std::optional<FrameBytes> answer_echo(const EthernetFrame& frame, const EtherAddress& mac,
                                      const Owns& owns) {
  switch (frame.type) {
    case kEtherTypeIpv4:
      return answer_ipv4(frame, mac, owns);
    case kEtherTypeIpv6:
      return answer_ipv6(frame, mac, owns);
    default:
      return std::nullopt;
  }
}

}  // namespace uroce::control
