#pragma once

// The invariant CRC of a RoCEv2 packet (annex A17.3.3; IBTA vol. 1, 7.8.1): a CRC-32 over 8 bytes
// of ones (where InfiniBand has its local route header), then everything from the IP header to the
// pad bytes, with the fields that a router may change taken as ones: IPv4 type of service, time to
// live and checksum; IPv6 traffic class, flow label and hop limit; the UDP checksum; FECN, BECN and
// the reserved bits next to them.

#include <cstddef>
#include <cstdint>

#include "dataplane/wire/crc/crc32.h"

namespace uroce {

// The register after the 8 bytes of ones.
inline constexpr std::uint32_t kIcrcStart = 0xDEBB'20E3;

namespace detail {
extern const CrcMask kIcrcMaskOfIpv4;
extern const CrcMask kIcrcMaskOfIpv6;
}  // namespace detail

// The register after `length` bytes from the IP header on. REQUIRES: length covers the BTH.
// crc32_update and crc32_copy continue it.
[[nodiscard]] inline std::uint32_t icrc_begin(const std::byte* ip, bool ipv6, std::size_t length) {
  return crc32_kernel().update_masked(kIcrcStart, ip, length,
                                      ipv6 ? detail::kIcrcMaskOfIpv6 : detail::kIcrcMaskOfIpv4);
}

// The ICRC's value; it is stored little-endian.
[[nodiscard]] constexpr std::uint32_t icrc_end(std::uint32_t state) { return ~state; }

}  // namespace uroce
