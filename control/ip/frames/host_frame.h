#pragma once

// Parsing and building shared by ARP, neighbour discovery and echo: Ethernet frames with or without
// a VLAN tag, and ICMPv6 over IPv6.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/byte_stream.h"
#include "base/internet_checksum.h"
#include "dataplane/wire/address.h"
#include "dataplane/wire/headers.h"

namespace uroce::control {

using FrameBytes = std::vector<std::byte>;

struct EthernetFrame {
  EtherAddress destination;
  EtherAddress source;
  std::uint16_t vlan = 0;  // the whole tag; 0: untagged
  std::uint16_t type = 0;
  std::span<const std::byte> payload;

  // 0: untagged, or a tag that has a priority only.
  [[nodiscard]] std::uint16_t vlan_id() const { return vlan & kVlanIdMask; }
};
std::optional<EthernetFrame> parse_ethernet(std::span<const std::byte> frame);
void write_ethernet(ByteWriter* writer, const EtherAddress& destination, const EtherAddress& source,
                    std::uint16_t vlan, std::uint16_t type);

Gid read_ipv4(ByteReader* reader);

// The sum over the IPv6 pseudo header of an ICMPv6 message (RFC 8200, 8.1).
std::uint32_t pseudo_header_sum(const Gid& source, const Gid& destination, std::size_t length);

struct Ipv6Packet {
  Gid source;
  Gid destination;
  std::uint8_t next_header = 0;
  std::uint8_t hop_limit = 0;
  std::span<const std::byte> payload;
};
std::optional<Ipv6Packet> parse_ipv6(std::span<const std::byte> bytes);
void write_ipv6(ByteWriter* writer, const Gid& source, const Gid& destination,
                std::uint8_t next_header, std::uint8_t hop_limit, std::size_t payload_length);

// The ICMPv6 message in the frame; nullopt unless its checksum is right.
std::optional<Ipv6Packet> parse_icmpv6(const EthernetFrame& frame);
// Fills in the checksum of the ICMPv6 message that starts at `offset` and ends the frame.
void finish_icmpv6(ByteWriter* writer, std::size_t offset, const Gid& source,
                   const Gid& destination);

}  // namespace uroce::control
