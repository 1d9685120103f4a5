#pragma once

// Replies to ICMP echo requests (ping) for our addresses (RFC 792; RFC 4443, 4).

#include <functional>
#include <optional>

#include "control/ip/frames/host_frame.h"

namespace uroce::control {

using Owns = std::function<bool(const Gid&)>;  // whether it is one of our addresses

// The reply to an echo request (IPv4 or IPv6) for one of our addresses, sent from `mac`. nullopt
// for any other frame, for fragments, and for a wrong checksum.
std::optional<FrameBytes> answer_echo(const EthernetFrame& frame, const EtherAddress& mac,
                                      const Owns& owns);

}  // namespace uroce::control
