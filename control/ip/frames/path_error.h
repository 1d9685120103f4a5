#pragma once

// ICMP errors about our RoCEv2 packets (RFC 792, RFC 4443). They can be forged, so they are hints:
// they are reported to the user and end unanswered connection requests, but no established
// connection.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "control/ip/frames/host_frame.h"

namespace uroce::control {

struct PathError {
  enum class Kind : std::uint8_t {
    kNoPort,     // port unreachable: the host is up, UDP port 4791 is closed
    kNoHost,     // host unreachable, from the last router or this machine
    kNoRoute,    // network unreachable: a router has no route
    kForbidden,  // administratively prohibited (a firewall)
    kTooBig,     // fragmentation needed: the path carries `mtu` bytes
  };
  Kind kind{};
  Gid reporter;             // the sender of the ICMP error
  Gid source, destination;  // of the packet that caused it
  std::uint32_t mtu = 0;    // kTooBig: of an IP packet
  // The quoted part of that packet's UDP payload.
  std::span<const std::byte> payload;
};

// nullopt: not an ICMP error, a wrong checksum, or the packet wasn't RoCEv2.
std::optional<PathError> parse_path_error(const EthernetFrame& frame);

// The errno value: ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, EACCES, EMSGSIZE.
int error_number(PathError::Kind kind);

// One sentence for the user.
std::string to_string(const PathError& error);

}  // namespace uroce::control
