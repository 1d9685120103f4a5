// The masks of the invariant CRC.

#include "dataplane/wire/icrc.h"

#include "dataplane/wire/layout.h"

namespace uroce {
namespace {

using namespace layout;

constexpr std::byte kOnes{0xFF};

constexpr void mask_transport(CrcMask& mask, std::size_t udp) {
  mask[udp + offsetof(Udp, checksum)] = kOnes;
  mask[udp + offsetof(Udp, checksum) + 1] = kOnes;
  mask[udp + sizeof(Udp) + offsetof(Bth, ecn_qpn)] = kOnes;
}

}  // namespace

constexpr CrcMask detail::kIcrcMaskOfIpv4 = [] {
  CrcMask mask{};
  mask[offsetof(Ipv4, tos)] = kOnes;
  mask[offsetof(Ipv4, ttl)] = kOnes;
  mask[offsetof(Ipv4, checksum)] = kOnes;
  mask[offsetof(Ipv4, checksum) + 1] = kOnes;
  mask_transport(mask, sizeof(Ipv4));
  return mask;
}();

constexpr CrcMask detail::kIcrcMaskOfIpv6 = [] {
  CrcMask mask{};
  mask[0] = std::byte{0x0F};  // all of the first word but the version
  mask[1] = mask[2] = mask[3] = kOnes;
  mask[offsetof(Ipv6, hop_limit)] = kOnes;
  mask_transport(mask, sizeof(Ipv6));
  return mask;
}();

}  // namespace uroce
