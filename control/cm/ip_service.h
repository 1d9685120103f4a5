#pragma once

// The RDMA IP CM service (IBTA vol. 1, annex A11): service identifiers made of a port space and a
// port, and the header with the IP addresses in front of the private data of REQ and SIDR_REQ.

#include <cstdint>
#include <optional>
#include <span>

#include "control/cm/messages.h"
#include "dataplane/wire/address.h"

namespace uroce::control::cm {

// enum rdma_port_space of librdmacm.
enum class PortSpace : std::uint16_t {
  kIpoib = 0x0002,
  kTcp = 0x0106,
  kUdp = 0x0111,
  kIb = 0x013F
};

constexpr std::uint64_t service_id(PortSpace space, std::uint16_t port) {
  return (static_cast<std::uint64_t>(space) << 16U) | port;
}
// The service identifiers that carry an IpHeader: those of annex A11.3, and IPoIB's, as in Linux.
constexpr bool has_ip_header(std::uint64_t service_id) {
  return service_id >> 24U == 1 ||
         service_id >> 16U == static_cast<std::uint64_t>(PortSpace::kIpoib);
}

// 36 bytes. Users' private data follows: 56 bytes in a REQ, 180 in a SIDR_REQ.
inline constexpr std::size_t kIpHeaderBytes = 36;
struct IpHeader {
  bool ipv6 = false;
  std::uint16_t source_port = 0;
  Gid source, destination;  // IPv4 as ::ffff:a.b.c.d, as everywhere in uroce
};

// nullopt if the version isn't 0, the IP version is neither 4 nor 6, or it is too short.
std::optional<IpHeader> parse_ip_header(std::span<const std::byte> private_data);

// The header followed by `data`.
PrivateData with_ip_header(const IpHeader& header, std::span<const std::byte> data);

}  // namespace uroce::control::cm
