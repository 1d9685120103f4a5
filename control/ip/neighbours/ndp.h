#pragma once

// IPv6 neighbour discovery (RFC 4861): solicitations and advertisements, as frames in and frames
// out.

#include <optional>

#include "control/ip/frames/host_frame.h"

namespace uroce::control {

struct NeighbourMessage {
  bool solicitation = true;                  // else an advertisement
  Gid source;                                // of the packet; zero: duplicate address detection
  Gid target;                                // the address that is solicited or advertised
  std::optional<EtherAddress> link_address;  // from the source or target link-layer address option
};

// nullopt if it isn't one, or must be discarded by RFC 4861, 7.1 (hop limit, checksum, lengths).
std::optional<NeighbourMessage> parse_neighbour_message(const EthernetFrame& frame);

// A solicitation for `target` to its solicited-node group, in the source's VLAN.
FrameBytes build_solicitation(const EtherAddress& mac, const LinkAddress& source,
                              const Gid& target);

// The reply to a solicitation for one of our addresses.
FrameBytes build_advertisement(const EthernetFrame& frame, const NeighbourMessage& solicitation,
                               const EtherAddress& mac);

// Tells all nodes of its VLAN that `address` is at `mac`.
FrameBytes build_announcement(const EtherAddress& mac, const LinkAddress& address);

}  // namespace uroce::control
