#pragma once

// IPv6 neighbour discovery (RFC 4861): solicitations and advertisements, as frames in and frames
// out.

#include <optional>

#include "control/ip/host_frame.h"

namespace uroce::control {

struct NeighbourMessage {
  bool solicitation = true;                  // else an advertisement
  Gid source;                                // of the packet; zero: duplicate address detection
  Gid target;                                // the address that is asked for or advertised
  std::optional<EtherAddress> link_address;  // from the option; the source's or the target's
};

// Nothing if it isn't one, or one that RFC 4861, 7.1 says to discard (hop limit, checksum,
// lengths).
std::optional<NeighbourMessage> parse_neighbour_message(const EthernetFrame& frame);

// "Who has `target`?" to its solicited-node group, in the source's VLAN.
FrameBytes build_solicitation(const EtherAddress& mac, const LinkAddress& source,
                              const Gid& target);

// The answer to a solicitation for one of our addresses.
FrameBytes build_advertisement(const EthernetFrame& frame, const NeighbourMessage& solicitation,
                               const EtherAddress& mac);

// Tells all nodes of its VLAN that `address` is at `mac`.
FrameBytes build_announcement(const EtherAddress& mac, const LinkAddress& address);

}  // namespace uroce::control
