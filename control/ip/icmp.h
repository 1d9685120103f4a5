#pragma once

// Echo (RFC 792, RFC 4443, 4): a ping of one of our addresses is answered with the same bytes.

#include <functional>
#include <optional>

#include "control/ip/host_frame.h"

namespace uroce::control {

using Owns = std::function<bool(const Gid&)>;  // is it one of our addresses?

// The reply to an echo request (IPv4 or IPv6) for one of our addresses, sent from `mac`. Nothing
// for any other frame, for fragments, and for what has a wrong checksum.
std::optional<FrameBytes> answer_echo(const EthernetFrame& frame, const EtherAddress& mac,
                                      const Owns& owns);

}  // namespace uroce::control
