#pragma once

// A path: everything in front of the BTH that is the same for all packets of a queue pair (or an
// address handle).

#include <cstdint>

#include "dataplane/wire/address.h"

namespace uroce {

struct Path {
  EtherAddress source_mac;
  EtherAddress destination_mac;
  Gid source_gid;  // both IPv4-mapped, or neither
  Gid destination_gid;
  std::uint16_t udp_source_port =
      0xC000;              // 0xC000 and above, for entropy: dynamic ports (RFC 6335)
  std::uint16_t vlan = 0;  // 0: untagged; else the whole tag (priority and id)
  std::uint8_t tos = 0;    // IPv4 TOS or IPv6 traffic class
  std::uint8_t hop_limit = 64;
  std::uint32_t flow_label = 0;  // IPv6

  [[nodiscard]] std::uint16_t vlan_id() const { return vlan & kVlanIdMask; }
};

// The source port that spreads queue pairs over equal-cost paths, as Linux computes it.
[[nodiscard]] std::uint16_t udp_source_port(std::uint32_t flow_label, std::uint32_t qpn,
                                            std::uint32_t remote_qpn);

}  // namespace uroce
