#pragma once

// Limits set by header fields and the specification.

#include <cstdint>

namespace uroce {

inline constexpr std::uint32_t kQpnMask = 0xFF'FFFF;  // 24 bits
// IBTA vol. 1, 9.7.4.1.
inline constexpr std::uint32_t kMessageBytesMax = 1U << 31U;

}  // namespace uroce
