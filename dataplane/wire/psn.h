#pragma once

// Packet sequence numbers: 24 bits, compared in a window of half the space (IBTA vol. 1, 9.7.1).

#include <cstdint>

namespace uroce {

inline constexpr std::uint32_t kPsnMask = 0xFF'FFFF;

[[nodiscard]] constexpr std::uint32_t psn_add(std::uint32_t psn, std::uint32_t count) {
  return (psn + count) & kPsnMask;
}

// The one before.
[[nodiscard]] constexpr std::uint32_t psn_before(std::uint32_t psn) { return (psn - 1) & kPsnMask; }

// How many packets on `to` is, modulo 2^24: very many if it is before `from`.
[[nodiscard]] constexpr std::uint32_t psn_distance(std::uint32_t from, std::uint32_t to) {
  return (to - from) & kPsnMask;
}

// a - b, signed: negative when a comes before b. REQUIRES: both are 24 bits.
[[nodiscard]] constexpr std::int32_t psn_difference(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::int32_t>((a - b) << 8U) >> 8;
}

// Message sequence numbers have 24 bits too (9.7.7).
[[nodiscard]] constexpr std::uint32_t msn_add(std::uint32_t msn, std::uint32_t count) {
  return psn_add(msn, count);
}

enum class Sequence : std::uint8_t { kDuplicate, kExpected, kAhead };

[[nodiscard]] constexpr Sequence place_in_sequence(std::uint32_t expected, std::uint32_t psn) {
  const std::int32_t difference = psn_difference(psn, expected);
  if (difference == 0) {
    return Sequence::kExpected;
  }
  return difference < 0 ? Sequence::kDuplicate : Sequence::kAhead;
}

}  // namespace uroce
