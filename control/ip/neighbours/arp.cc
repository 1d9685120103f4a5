#include "control/ip/neighbours/arp.h"

namespace uroce::control {
namespace {

constexpr std::uint16_t kHardwareEthernet = 1;
constexpr std::uint16_t kRequest = 1;
constexpr std::uint16_t kReply = 2;
constexpr EtherAddress kBroadcast{{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}};

void write_arp(ByteWriter* writer, const Arp& arp) {
  writer->u16(kHardwareEthernet);
  writer->u16(kEtherTypeIpv4);
  writer->u8(6);
  writer->u8(4);
  writer->u16(arp.request ? kRequest : kReply);
  writer->write(arp.sender_mac.bytes);
  writer->write(ipv4_of(arp.sender));
  writer->write(arp.target_mac.bytes);
  writer->write(ipv4_of(arp.target));
}

}  // namespace

std::optional<Arp> parse_arp(const EthernetFrame& frame) {
  if (frame.type != kEtherTypeArp) {
    return std::nullopt;
  }
  ByteReader reader(frame.payload);
  const bool ethernet_ipv4 = reader.u16() == kHardwareEthernet && reader.u16() == kEtherTypeIpv4 &&
                             reader.u8() == 6 && reader.u8() == 4;
  const std::uint16_t operation = reader.u16();
  Arp arp;
  arp.request = operation == kRequest;
  reader.read(arp.sender_mac.bytes);
  arp.sender = read_ipv4(&reader);
  reader.read(arp.target_mac.bytes);
  arp.target = read_ipv4(&reader);
  if (!ethernet_ipv4 || reader.failed() || (operation != kRequest && operation != kReply) ||
      arp.sender_mac.is_multicast()) {
    return std::nullopt;
  }
  return arp;
}

FrameBytes build_arp_request(const EtherAddress& mac, const LinkAddress& sender,
                             const Gid& target) {
  ByteWriter writer;
  write_ethernet(&writer, kBroadcast, mac, sender.vlan, kEtherTypeArp);
  write_arp(&writer, {.request = true,
                      .sender_mac = mac,
                      .sender = sender.gid,
                      .target_mac = {},
                      .target = target});
  return writer.take();
}

FrameBytes build_arp_reply(const EthernetFrame& frame, const Arp& request,
                           const EtherAddress& mac) {
  ByteWriter writer;
  write_ethernet(&writer, frame.source, mac, frame.vlan, kEtherTypeArp);
  write_arp(&writer, {.request = false,
                      .sender_mac = mac,
                      .sender = request.target,
                      .target_mac = request.sender_mac,
                      .target = request.sender});
  return writer.take();
}

}  // namespace uroce::control
