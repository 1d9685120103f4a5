#pragma once

// An ICMP error (RFC 792, RFC 4443) about a RoCEv2 packet of ours, as a wire would have delivered
// it. Sockets get no such frames: the kernel consumes them and reports their contents.

#include <cstdint>
#include <span>

#include "dataplane/wire/address.h"
#include "dataplane/wire/frame.h"

namespace uroce {

struct IcmpError {
  std::uint8_t type = 0, code = 0;
  std::uint32_t mtu = 0;                    // of the path, if the packet was too big
  Gid reporter;                             // the sender of the error
  Gid source, destination;                  // of the packet that caused it
  std::span<const std::byte> payload = {};  // of that packet's UDP payload; may be truncated
};

inline constexpr std::size_t kQuotedBytesMax = 256;  // of the payload

// REQUIRES: frame.capacity is at least kPortMtuMin; source and destination are of the same family.
void build_icmp_error(Frame& frame, const IcmpError& error);

}  // namespace uroce
