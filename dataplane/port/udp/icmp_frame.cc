#include "dataplane/port/udp/icmp_frame.h"

#include <algorithm>

#include "base/byte_stream.h"
#include "base/internet_checksum.h"
#include "dataplane/wire/headers.h"

namespace uroce {
namespace {

constexpr std::uint8_t kHopLimit = 64;
constexpr std::size_t kIpv4Header = 20, kUdpHeader = 8, kIcmpHeader = 8;
constexpr std::size_t kIpv4ChecksumAt = 10, kIcmpChecksumAt = 2;

void write_ip(ByteWriter* to, const Gid& source, const Gid& destination, std::uint8_t protocol,
              std::size_t length) {
  if (!source.is_ipv4()) {
    to->u32(0x6000'0000);
    to->u16(static_cast<std::uint32_t>(length));
    to->u8(protocol);
    to->u8(kHopLimit);
    to->write(source.bytes);
    to->write(destination.bytes);
    return;
  }
  const std::size_t start = to->size();
  to->u16(0x4500);
  to->u16(static_cast<std::uint32_t>(kIpv4Header + length));
  to->u32(0);
  to->u8(kHopLimit);
  to->u8(protocol);
  to->u16(0);
  to->write(ipv4_of(source));
  to->write(ipv4_of(destination));
  to->store_u16(start + kIpv4ChecksumAt, checksum_finish(checksum_add(to->from(start))));
}

std::uint32_t pseudo_header_sum(const IcmpError& error, std::size_t length) {
  std::uint32_t sum = checksum_add(std::as_bytes(std::span(error.reporter.bytes)));
  sum = checksum_add(std::as_bytes(std::span(error.source.bytes)), sum);
  return sum + static_cast<std::uint32_t>(length) + kIpProtocolIcmpV6;
}

}  // namespace

void build_icmp_error(Frame& frame, const IcmpError& error) {
  const bool ipv4 = error.source.is_ipv4();
  const auto payload = error.payload.first(std::min(error.payload.size(), kQuotedBytesMax));
  ByteWriter quoted;
  write_ip(&quoted, error.source, error.destination, kIpProtocolUdp, kUdpHeader + payload.size());
  quoted.u16(kRoceUdpPort);
  quoted.u16(kRoceUdpPort);
  quoted.u16(static_cast<std::uint32_t>(kUdpHeader + payload.size()));
  quoted.u16(0);
  quoted.write(payload);

  ByteWriter writer;
  writer.write(stand_in_mac(error.source).bytes);
  writer.write(stand_in_mac(error.reporter).bytes);
  writer.u16(ipv4 ? kEtherTypeIpv4 : kEtherTypeIpv6);
  write_ip(&writer, error.reporter, error.source, ipv4 ? kIpProtocolIcmp : kIpProtocolIcmpV6,
           kIcmpHeader + quoted.size());
  const std::size_t icmp = writer.size();
  writer.u8(error.type);
  writer.u8(error.code);
  writer.u16(0);
  writer.u32(error.mtu);  // of IPv4 the lower half, in front of which are zeroes
  writer.write(quoted.take());
  const auto message = writer.from(icmp);
  const std::uint32_t pseudo = ipv4 ? 0 : pseudo_header_sum(error, message.size());
  writer.store_u16(icmp + kIcmpChecksumAt, checksum_finish(checksum_add(message, pseudo)));
  const std::vector<std::byte> bytes = writer.take();
  std::copy(bytes.begin(), bytes.end(), frame.data);
  frame.length = static_cast<std::uint32_t>(bytes.size());
}

}  // namespace uroce
