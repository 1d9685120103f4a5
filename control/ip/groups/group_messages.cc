#include "control/ip/groups/group_messages.h"

#include <algorithm>

#include "control/ip/addresses/gid_table.h"

namespace uroce::control {
namespace {

constexpr std::uint8_t kIgmpQuery = 0x11, kIgmpReport = 0x16, kIgmpLeave = 0x17;
constexpr std::uint8_t kMldQuery = 130, kMldReport = 131, kMldDone = 132;
constexpr std::uint8_t kGroupHopLimit = 1;
constexpr std::size_t kAlertIpv4Header = 24;  // with the router alert option
constexpr std::size_t kHopByHop = 8;
constexpr std::size_t kIgmpBytes = 8, kMldBytes = 24;
constexpr Duration kIgmpUnit = 100 * kNanosecondsPerMillisecond;
constexpr Duration kMldUnit = kNanosecondsPerMillisecond;
constexpr Duration kVersion1Response = 10 * kNanosecondsPerSecond;  // RFC 2236, 4
constexpr std::uint8_t kInternetControl = 0xC0;  // type of service, as routers expect of IGMP
constexpr Gid kAllRouters4 = mapped_gid(std::array<std::uint8_t, 4>{224, 0, 0, 2});
constexpr Gid kAllRouters6{{0xFF, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};

FrameBytes build_igmp(const EtherAddress& mac, const LinkAddress& source, const Gid& destination,
                      std::uint8_t type, const Gid& group) {
  ByteWriter writer;
  write_ethernet(&writer, multicast_mac(destination), mac, source.vlan, kEtherTypeIpv4);
  const std::size_t ip = writer.size();
  writer.u8(0x40 | kAlertIpv4Header / 4);
  writer.u8(kInternetControl);
  writer.u16(kAlertIpv4Header + kIgmpBytes);
  writer.u16(0);  // identification
  writer.u16(0x4000);
  writer.u8(kGroupHopLimit);
  writer.u8(kIpProtocolIgmp);
  writer.u16(0);  // checksum
  writer.write(ipv4_of(source.gid));
  writer.write(ipv4_of(destination));
  writer.u32(0x9404'0000);  // router alert (RFC 2113)
  writer.store_u16(ip + 10, checksum_finish(checksum_add(writer.from(ip))));
  const std::size_t igmp = writer.size();
  writer.u8(type);
  writer.u8(0);
  writer.u16(0);  // checksum
  writer.write(ipv4_of(group));
  writer.store_u16(igmp + 2, checksum_finish(checksum_add(writer.from(igmp))));
  return writer.take();
}

FrameBytes build_mld(const EtherAddress& mac, const LinkAddress& source, const Gid& destination,
                     std::uint8_t type, const Gid& group) {
  ByteWriter writer;
  write_ethernet(&writer, multicast_mac(destination), mac, source.vlan, kEtherTypeIpv6);
  write_ipv6(&writer, source.gid, destination, kIpProtocolHopByHop, kGroupHopLimit,
             kHopByHop + kMldBytes);
  writer.u8(kIpProtocolIcmpV6);
  writer.u8(0);             // 8 bytes of options
  writer.u32(0x0502'0000);  // router alert: MLD (RFC 2711)
  writer.u16(0x0100);       // padding
  const std::size_t offset = writer.size();
  writer.u8(type);
  writer.u8(0);
  writer.u16(0);  // checksum
  writer.u32(0);  // maximum response delay, reserved
  writer.write(group.bytes);
  finish_icmpv6(&writer, offset, source.gid, destination);
  return writer.take();
}

// The group that a query names; nullopt for a general query.
std::optional<Gid> asked_for(const Gid& group) {
  return is_multicast(group) ? std::optional(group) : std::nullopt;
}

// A response time in a query's units: a number, or from `floats_from` on a mantissa and a 3-bit
// exponent below a 1 (RFC 3376, 4.1.1; RFC 3810, 5.1.3).
std::uint32_t response_units(std::uint32_t code, std::uint32_t floats_from) {
  if (code < floats_from) {
    return code;
  }
  const std::uint32_t mantissas = floats_from >> 3U;
  const std::uint32_t exponent = (code / mantissas) & 7U;
  return (code % mantissas | mantissas) << (exponent + 3);
}

std::optional<GroupQuery> parse_igmp(const EthernetFrame& frame) {
  ByteReader reader(frame.payload);
  const std::uint8_t version_length = reader.u8();
  reader.skip(1);
  const std::size_t total = reader.u16();
  reader.skip(4);
  const std::uint8_t time_to_live = reader.u8();
  const std::uint8_t protocol = reader.u8();
  const std::size_t header = (version_length & 0x0FU) * std::size_t{4};
  if (reader.failed() || version_length >> 4U != 4 || header < 20 ||
      time_to_live != kGroupHopLimit || protocol != kIpProtocolIgmp ||
      total < header + kIgmpBytes || total > frame.payload.size() ||
      checksum_finish(checksum_add(frame.payload.first(header))) != 0) {
    return std::nullopt;
  }
  const auto message = frame.payload.subspan(header, total - header);
  ByteReader igmp(message);
  const std::uint8_t type = igmp.u8();
  const std::uint8_t code = igmp.u8();
  igmp.skip(2);
  if (type != kIgmpQuery || checksum_finish(checksum_add(message)) != 0) {
    return std::nullopt;
  }
  const bool is_version_2 = message.size() == kIgmpBytes;
  const std::uint32_t units = response_units(code, is_version_2 ? 256 : 128);
  return GroupQuery{.ipv4 = true,
                    .group = asked_for(read_ipv4(&igmp)),
                    .answer_within = units == 0 ? kVersion1Response : units * kIgmpUnit};
}

std::optional<GroupQuery> parse_mld(const EthernetFrame& frame) {
  const auto packet = parse_ipv6(frame.payload);
  if (!packet || packet->next_header != kIpProtocolHopByHop ||
      packet->hop_limit != kGroupHopLimit || !is_link_local(packet->source) ||
      packet->payload.size() < kHopByHop + kMldBytes ||
      packet->payload[0] != std::byte{kIpProtocolIcmpV6} || packet->payload[1] != std::byte{0}) {
    return std::nullopt;
  }
  const auto message = packet->payload.subspan(kHopByHop);
  const std::uint32_t sum =
      checksum_add(message, pseudo_header_sum(packet->source, packet->destination, message.size()));
  ByteReader reader(message);
  const std::uint8_t type = reader.u8();
  reader.skip(3);
  const std::uint16_t code = reader.u16();
  reader.skip(2);
  Gid group;
  reader.read(group.bytes);
  if (type != kMldQuery || checksum_finish(sum) != 0) {
    return std::nullopt;
  }
  const bool is_version_1 = message.size() == kMldBytes;
  return GroupQuery{
      .ipv4 = false,
      .group = asked_for(group),
      .answer_within = response_units(code, is_version_1 ? 65'536 : 32'768) * kMldUnit};
}

}  // namespace

std::optional<GroupQuery> parse_group_query(const EthernetFrame& frame) {
  switch (frame.type) {
    case kEtherTypeIpv4:
      return parse_igmp(frame);
    case kEtherTypeIpv6:
      return parse_mld(frame);
    default:
      return std::nullopt;
  }
}

FrameBytes build_group_report(const EtherAddress& mac, const LinkAddress& source,
                              const Gid& group) {
  return group.is_ipv4() ? build_igmp(mac, source, group, kIgmpReport, group)
                         : build_mld(mac, source, group, kMldReport, group);
}

FrameBytes build_group_leave(const EtherAddress& mac, const LinkAddress& source, const Gid& group) {
  return group.is_ipv4() ? build_igmp(mac, source, kAllRouters4, kIgmpLeave, group)
                         : build_mld(mac, source, kAllRouters6, kMldDone, group);
}

}  // namespace uroce::control
