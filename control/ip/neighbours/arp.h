#pragma once

// ARP for IPv4 over Ethernet (RFC 826), as frames in and frames out.
//
// +---------------+---------------+
// | hardware 1    | protocol 0800 |
// +-------+-------+---------------+
// | 6     | 4     | operation     |
// +-------+-------+---------------+
// | sender Ethernet (6), IPv4 (4) |
// | target Ethernet (6), IPv4 (4) |
// +-------------------------------+

#include <optional>

#include "control/ip/frames/host_frame.h"

namespace uroce::control {

struct Arp {
  bool request = true;  // else a reply
  EtherAddress sender_mac;
  Gid sender;  // IPv4-mapped; ::ffff:0.0.0.0 in a probe
  EtherAddress target_mac;
  Gid target;
};

// nullopt if it isn't a well-formed ARP request or reply.
std::optional<Arp> parse_arp(const EthernetFrame& frame);

// A broadcast request for `target` from `sender`, in its VLAN. With sender == target an
// announcement.
FrameBytes build_arp_request(const EtherAddress& mac, const LinkAddress& sender, const Gid& target);

// The reply to a request for one of our addresses.
FrameBytes build_arp_reply(const EthernetFrame& frame, const Arp& request, const EtherAddress& mac);

}  // namespace uroce::control
