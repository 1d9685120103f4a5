#pragma once

// Limits set by header fields and the specification.

#include <cstdint>

namespace uroce {

inline constexpr std::uint32_t kQpnMask = 0xFF'FFFF;  // 24 bits
// IBTA vol. 1, 9.7.4.1.
inline constexpr std::uint32_t kMessageBytesMax = 1U << 31U;
// What an atomic operation or an ATOMIC WRITE accesses.
inline constexpr std::uint32_t kAtomicBytes = 8;
// The global route header, which a receive request of a UD queue pair gets in front of the payload.
inline constexpr std::uint32_t kGrhBytes = 40;
// Retry counts have 3 bits. An RNR retry count of 7 has no end (9.7.5.2.8).
inline constexpr std::uint8_t kRetriesMax = 7;
inline constexpr std::uint8_t kRnrRetriesInfinite = 7;

}  // namespace uroce
