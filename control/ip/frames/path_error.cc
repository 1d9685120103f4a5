#include "control/ip/frames/path_error.h"

#include <cerrno>

#include "dataplane/wire/headers.h"

namespace uroce::control {
namespace {

constexpr std::size_t kIpv4Header = 20, kIpv6Header = 40, kIcmpHeader = 8, kUdpHeader = 8;
constexpr std::uint16_t kFragmentOffset = 0x1FFF;

struct Ipv4Packet {
  Gid source, destination;
  std::uint8_t protocol = 0;
  std::span<const std::byte> payload;
};

// Most of the quoted packet may be missing, so its length isn't checked.
std::optional<Ipv4Packet> read_ipv4_packet(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Ipv4Packet packet;
  const std::uint8_t version_length = reader.u8();
  const std::size_t header = 4UL * (version_length & 0xFU);
  reader.skip(5);
  const std::uint16_t fragment = reader.u16();
  reader.skip(1);
  packet.protocol = reader.u8();
  reader.skip(2);
  packet.source = read_ipv4(&reader);
  packet.destination = read_ipv4(&reader);
  if (reader.failed() || version_length >> 4U != 4 || header < kIpv4Header ||
      header > bytes.size() || (fragment & kFragmentOffset) != 0) {
    return std::nullopt;
  }
  packet.payload = bytes.subspan(header);
  return packet;
}

std::optional<PathError::Kind> ipv4_kind(std::uint8_t type, std::uint8_t code) {
  using enum PathError::Kind;
  constexpr std::uint8_t kUnreachable = 3;
  if (type != kUnreachable) {
    return std::nullopt;
  }
  switch (code) {
    case 0:  // net, RFC 792
    case 6:  // net unknown, RFC 1122, 3.2.2.1
    case 11:
      return kNoRoute;
    case 1:  // host
    case 7:
    case 12:
      return kNoHost;
    case 3:
      return kNoPort;
    case 4:
      return kTooBig;
    case 9:
    case 10:
    case 13:
      return kForbidden;
    default:
      return std::nullopt;
  }
}

std::optional<PathError::Kind> ipv6_kind(std::uint8_t type, std::uint8_t code) {
  using enum PathError::Kind;
  constexpr std::uint8_t kUnreachable = 1, kPacketTooBig = 2;
  if (type == kPacketTooBig) {
    return kTooBig;
  }
  if (type != kUnreachable) {
    return std::nullopt;
  }
  switch (code) {
    case 0:
      return kNoRoute;
    case 3:
      return kNoHost;
    case 4:
      return kNoPort;
    case 1:
    case 5:
    case 6:
      return kForbidden;
    default:
      return std::nullopt;
  }
}

// The UDP payload of the quoted packet; nullopt: it isn't RoCEv2.
std::optional<std::span<const std::byte>> roce_payload(std::uint8_t protocol,
                                                       std::span<const std::byte> udp) {
  ByteReader reader(udp);
  reader.skip(2);
  const std::uint16_t port = reader.u16();
  if (protocol != kIpProtocolUdp || udp.size() < kUdpHeader || port != kRoceUdpPort) {
    return std::nullopt;
  }
  return udp.subspan(kUdpHeader);
}

std::optional<PathError> parse_ipv4(std::span<const std::byte> bytes) {
  const auto outer = read_ipv4_packet(bytes);
  if (!outer || outer->protocol != kIpProtocolIcmp || outer->payload.size() < kIcmpHeader ||
      checksum_finish(checksum_add(bytes.first(bytes.size() - outer->payload.size()))) != 0) {
    return std::nullopt;
  }
  ByteReader reader(outer->payload);
  const std::uint8_t type = reader.u8();
  const std::uint8_t code = reader.u8();
  reader.skip(4);
  const std::uint16_t mtu = reader.u16();
  const auto kind = ipv4_kind(type, code);
  const auto inner = read_ipv4_packet(reader.rest());
  if (!kind || !inner || checksum_finish(checksum_add(outer->payload)) != 0) {
    return std::nullopt;
  }
  const auto payload = roce_payload(inner->protocol, inner->payload);
  return payload ? std::optional(PathError{.kind = *kind,
                                           .reporter = outer->source,
                                           .source = inner->source,
                                           .destination = inner->destination,
                                           .mtu = mtu,
                                           .payload = *payload})
                 : std::nullopt;
}

std::optional<PathError> parse_ipv6_error(const EthernetFrame& frame) {
  const auto outer = parse_icmpv6(frame);
  if (!outer || outer->payload.size() < kIcmpHeader + kIpv6Header) {
    return std::nullopt;
  }
  ByteReader reader(outer->payload);
  const std::uint8_t type = reader.u8();
  const std::uint8_t code = reader.u8();
  reader.skip(2);
  PathError error{.kind = {},
                  .reporter = outer->source,
                  .source = {},
                  .destination = {},
                  .mtu = reader.u32(),
                  .payload = {}};
  const auto kind = ipv6_kind(type, code);
  reader.skip(6);
  const std::uint8_t protocol = reader.u8();
  reader.skip(1);
  reader.read(error.source.bytes);
  reader.read(error.destination.bytes);
  const auto payload = roce_payload(protocol, reader.rest());
  if (!kind || !payload) {
    return std::nullopt;
  }
  error.kind = *kind;
  error.payload = *payload;
  return error;
}

}  // namespace

std::optional<PathError> parse_path_error(const EthernetFrame& frame) {
  switch (frame.type) {
    case kEtherTypeIpv4: {
      // Short frames are padded: the length in the header counts.
      ByteReader reader(frame.payload);
      reader.skip(2);
      const std::size_t total = reader.u16();
      return total <= frame.payload.size() ? parse_ipv4(frame.payload.first(total)) : std::nullopt;
    }
    case kEtherTypeIpv6:
      return parse_ipv6_error(frame);
    default:
      return std::nullopt;
  }
}

int error_number(PathError::Kind kind) {
  switch (kind) {
    case PathError::Kind::kNoPort:
      return ECONNREFUSED;
    case PathError::Kind::kNoHost:
      return EHOSTUNREACH;
    case PathError::Kind::kNoRoute:
      return ENETUNREACH;
    case PathError::Kind::kForbidden:
      return EACCES;
    case PathError::Kind::kTooBig:
      break;
  }
  return EMSGSIZE;
}

std::string to_string(const PathError& error) {
  const std::string peer = to_string(error.destination);
  const std::string says = " (says " + to_string(error.reporter) + ")";
  switch (error.kind) {
    case PathError::Kind::kNoPort:
      return peer + " is there, but nothing has UDP port 4791 at that address: start uroced there";
    case PathError::Kind::kNoHost:
      return "no host answers at " + peer + says;
    case PathError::Kind::kNoRoute:
      return "there is no route to " + peer + says;
    case PathError::Kind::kForbidden:
      return "a firewall lets no UDP port 4791 through to " + peer + says;
    case PathError::Kind::kTooBig:
      break;
  }
  return "the path to " + peer + " carries IP packets of " + std::to_string(error.mtu) +
         " bytes at most" + says +
         ": longer ones are lost, so connections there need a smaller path MTU";
}

}  // namespace uroce::control
