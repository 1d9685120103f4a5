#pragma once

// What parse() finds in a frame: the fields every role needs, decoded, and the place of the
// extension headers, decoded when asked for. A view: it points into the frame and lives no longer
// than that.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "dataplane/wire/address.h"
#include "dataplane/wire/drop.h"
#include "dataplane/wire/headers.h"
#include "dataplane/wire/opcode.h"

namespace uroce {

struct Packet {
  static constexpr std::uint8_t kUntagged = 14;  // bytes of an Ethernet header without a tag

  const std::byte* ip = nullptr;       // the IPv4 or IPv6 header
  const std::byte* bth = nullptr;      // the base transport header
  const std::byte* payload = nullptr;  // behind the last extension header
  std::uint32_t payload_length = 0;    // without pad bytes and ICRC
  std::uint32_t psn = 0;
  std::uint32_t dest_qpn = 0;
  std::uint16_t pkey = 0;
  Opcode opcode = Opcode::kRcSendOnly;
  std::uint8_t ip_version = 4;
  std::uint8_t tos = 0;                      // DSCP and ECN
  std::uint8_t ethernet_length = kUntagged;  // bytes in front of `ip`: 14, or 18 with a VLAN tag
  bool solicited = false;
  bool ack_request = false;
  bool fecn = false;
  bool becn = false;
  bool migrated = true;  // MigReq

  // The extension headers. REQUIRES: opcode_info(opcode) says that the packet has it.
  [[nodiscard]] Reth reth() const;
  [[nodiscard]] Aeth aeth() const;
  [[nodiscard]] AtomicEth atomic_eth() const;
  [[nodiscard]] std::uint64_t atomic_ack() const;  // the original value, host order
  [[nodiscard]] std::uint32_t immediate()
      const;  // as on the wire (big-endian), as verbs hand it out
  [[nodiscard]] std::uint32_t invalidate_rkey() const;  // IETH, host order
  [[nodiscard]] Deth deth() const;
  [[nodiscard]] std::uint32_t xrc_srqn() const;
  [[nodiscard]] Feth feth() const;

  // The VLAN that its tag names; 0: untagged, or tagged with a priority only (IEEE 802.1Q, 9.6).
  [[nodiscard]] std::uint16_t vlan_id() const {
    return ethernet_length == kUntagged ? std::uint16_t{0} : tagged_vlan_id();
  }
  // IPv4 as ::ffff:a.b.c.d.
  [[nodiscard]] Gid source_gid() const { return gid_at(kIpv4Source, kIpv6Source); }
  [[nodiscard]] Gid destination_gid() const {
    return gid_at(kIpv4Source + kIpv4Length, kIpv6Source + sizeof(Gid));
  }
  [[nodiscard]] std::uint16_t udp_source_port() const;
  [[nodiscard]] EtherAddress source_mac()
      const;  // of the Ethernet header in front of `ip` or of its VLAN tag

 private:
  // Where addresses lie in the IP headers, the destination's behind the source's; packet.cc
  // compares with wire/layout.h.
  friend struct PacketLayout;
  static constexpr std::size_t kIpv4Source = 12;
  static constexpr std::size_t kIpv4Length = 4;
  static constexpr std::size_t kIpv6Source = 8;
  [[nodiscard]] Gid gid_at(std::size_t ipv4, std::size_t ipv6) const {
    if (ip_version == 4) [[likely]] {
      std::array<std::uint8_t, kIpv4Length> address;
      std::memcpy(address.data(), ip + ipv4, sizeof(address));
      return mapped_gid(address);
    }
    Gid gid;
    std::memcpy(gid.bytes.data(), ip + ipv6, sizeof(gid));
    return gid;
  }
  [[nodiscard]] std::uint16_t tagged_vlan_id() const;
};

struct Frame;

// Parses a frame of the wire into frame.packet and trusts nothing: lengths come from the IP header,
// not from the frame. Checks, in this order: Ethernet type, IP header (version, header length,
// checksum, fragment, total length), UDP port and length, BTH (length, transport version), opcode,
// extension headers, pad count, ICRC (unless the port has, frame.icrc_checked, or there is none).
// Says why the packet must be dropped; kNone if it may go on. Frames that aren't RoCEv2 come back
// as kNotRoce: some belong to control (is_host_frame). Doesn't look at addresses, queue pairs or
// keys.
[[nodiscard]] Drop parse(Frame& frame);

// Whether a frame that parse() found to be kNotRoce is one that a host has to look at: ARP, ICMP,
// IGMP, ICMPv6. Whatever else is on the link is no concern of a RoCE card.
[[nodiscard]] bool is_host_frame(const Frame& frame);

// parse() without the last check, the ICRC: for workers, who make it just before they copy the
// payload, and for frames of our own.
[[nodiscard]] Drop parse_headers(Frame& frame);

// Whether the ICRC is right. REQUIRES: parse_headers() found nothing wrong with the packet.
[[nodiscard]] bool icrc_is_right(const Packet& packet);

// For whoever shows frames to others: a frame in one piece (gather()), with the ICRC that was left
// out. Parses its headers anew.
void complete(Frame& frame);

}  // namespace uroce
