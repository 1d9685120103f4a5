#pragma once

// What a host says about multicast groups so that switches and routers bring their packets here:
// IGMPv2 (RFC 2236) for IPv4, MLDv1 (RFC 2710) for IPv6, as frames in and frames out. The older
// versions, because routers and switches of the newer ones still understand them.

#include <optional>

#include "control/ip/host_frame.h"

namespace uroce::control {

struct GroupQuery {
  bool ipv4 = true;
  std::optional<Gid> group;  // nothing: all groups
};
// Nothing if it isn't a well-formed query of IGMP or MLD.
std::optional<GroupQuery> parse_group_query(const EthernetFrame& frame);

// "I am in `group`." `source` is one of our addresses of the group's family, in whose VLAN it is
// said; link-local for MLD (RFC 2710, 3.5).
FrameBytes build_group_report(const EtherAddress& mac, const LinkAddress& source, const Gid& group);
// "I leave `group`."
FrameBytes build_group_leave(const EtherAddress& mac, const LinkAddress& source, const Gid& group);

}  // namespace uroce::control
