#include "control/cm/ip_service.h"

#include "base/byte_stream.h"

namespace uroce::control::cm {
namespace {

constexpr std::uint8_t kIpv4 = 4;
constexpr std::uint8_t kIpv6 = 6;

// An IPv4 address lies where it does in a mapped one, but with zeroes in front (A11.3.2).
Gid read_address(ByteReader& reader, bool ipv6) {
  Gid gid;
  reader.read(gid.bytes);
  return ipv6 ? gid : mapped_gid(ipv4_of(gid));
}

void write_address(ByteWriter& writer, Gid gid, bool ipv6) {
  if (!ipv6) {
    std::fill_n(gid.bytes.begin(), kIpv4MappedPrefix.size(), std::uint8_t{0});
  }
  writer.write(gid.bytes);
}

}  // namespace

std::optional<IpHeader> parse_ip_header(std::span<const std::byte> private_data) {
  ByteReader reader(private_data);
  const std::uint8_t version = reader.u8();
  const std::uint8_t ip_version = reader.u8() >> 4U;
  IpHeader header;
  header.ipv6 = ip_version == kIpv6;
  header.source_port = reader.u16();
  header.source = read_address(reader, header.ipv6);
  header.destination = read_address(reader, header.ipv6);
  if (reader.failed() || version != 0 || (ip_version != kIpv4 && ip_version != kIpv6)) {
    return std::nullopt;
  }
  return header;
}

PrivateData with_ip_header(const IpHeader& header, std::span<const std::byte> data) {
  ByteWriter writer;
  writer.u8(0);
  writer.u8(static_cast<std::uint32_t>(header.ipv6 ? kIpv6 : kIpv4) << 4U);
  writer.u16(header.source_port);
  write_address(writer, header.source, header.ipv6);
  write_address(writer, header.destination, header.ipv6);
  writer.write(data);
  return writer.take();
}

}  // namespace uroce::control::cm
