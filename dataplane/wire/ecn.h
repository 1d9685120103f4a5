#pragma once

// Explicit congestion notification: the two low bits of IPv4's TOS and IPv6's traffic class (RFC
// 3168). A queue that grows marks packets whose sender says that it listens, instead of dropping
// them. The ICRC masks these bits, so marking breaks nothing.

#include <cstddef>
#include <cstdint>

namespace uroce {

enum class Ecn : std::uint8_t {
  kNotCapable = 0,  // Not-ECT: its sender doesn't listen
  kCapable1 = 1,    // ECT(1)
  kCapable0 = 2,    // ECT(0), what RoCE cards send
  kCongested = 3,   // CE
};

inline constexpr std::uint8_t kEcnMask = 0x03;
inline constexpr unsigned kDscpShift = 2;

[[nodiscard]] constexpr Ecn ecn_of(std::uint8_t tos) { return static_cast<Ecn>(tos & kEcnMask); }

[[nodiscard]] constexpr std::uint8_t with_ecn(std::uint8_t tos, Ecn ecn) {
  return static_cast<std::uint8_t>((tos & ~kEcnMask) | static_cast<std::uint8_t>(ecn));
}

// As a queue leaves it that had no room for another packet: marked, if its sender listens.
[[nodiscard]] constexpr std::uint8_t marked_by_full_queue(std::uint8_t tos) {
  return ecn_of(tos) == Ecn::kNotCapable ? tos : with_ecn(tos, Ecn::kCongested);
}

// Of the IPv4 or IPv6 header at `ip`, as a switch on the way reads and changes it; the checksum of
// an IPv4 header is kept right. REQUIRES: the whole header is there.
[[nodiscard]] Ecn read_ecn(const std::byte* ip);
void write_ecn(std::byte* ip, Ecn ecn);

}  // namespace uroce
