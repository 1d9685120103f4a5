#pragma once

// A host's multicast group reports, which make switches and routers forward a group's packets here:
// IGMPv2 (RFC 2236) for IPv4, MLDv1 (RFC 2710) for IPv6, as frames in and frames out. Routers and
// switches with newer versions still accept these.

#include <optional>

#include "base/time.h"
#include "control/ip/frames/host_frame.h"

namespace uroce::control {

struct GroupQuery {
  bool ipv4 = true;
  std::optional<Gid> group;    // nullopt: all groups
  Duration answer_within = 0;  // reports are spread over this time
};
// nullopt if it isn't a well-formed query of IGMP or MLD from this link.
std::optional<GroupQuery> parse_group_query(const EthernetFrame& frame);

// A membership report. `source` is one of our addresses of the group's family and determines the
// VLAN; link-local for MLD (RFC 2710, 3.5).
FrameBytes build_group_report(const EtherAddress& mac, const LinkAddress& source, const Gid& group);
// IGMP Leave Group or MLD Done.
FrameBytes build_group_leave(const EtherAddress& mac, const LinkAddress& source, const Gid& group);

}  // namespace uroce::control
