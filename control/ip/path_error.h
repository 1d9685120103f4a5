#pragma once

// ICMP errors about RoCEv2 packets of ours (RFC 792, RFC 4443): what they say of the way to a peer.
// Anybody can forge one, so they are hints: they are told to the user, and end what nobody has
// answered yet, but nothing that works.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "control/ip/host_frame.h"

namespace uroce::control {

struct PathError {
  enum class Kind : std::uint8_t {
    kNoPort,     // the host is there, and nobody has UDP port 4791
    kNoHost,     // the last router, or this machine, can't find the host
    kNoRoute,    // some router has no way
    kForbidden,  // a firewall says no
    kTooBig,     // the path carries `mtu` bytes
  };
  Kind kind{};
  Gid reporter;             // who says so
  Gid source, destination;  // of the packet that it is about
  std::uint32_t mtu = 0;    // kTooBig: of an IP packet
  // Of that packet what is behind the UDP header, as much as the message repeats.
  std::span<const std::byte> payload;
};

// Nothing: no ICMP error, a wrong checksum, or about a packet that isn't RoCEv2.
std::optional<PathError> parse_path_error(const EthernetFrame& frame);

// As errno has it: ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, EACCES, EMSGSIZE.
int error_number(PathError::Kind kind);

// One sentence for the user.
std::string to_string(const PathError& error);

}  // namespace uroce::control
