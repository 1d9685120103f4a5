#pragma once

// Bounds that the headers' fields and the specification set, for whoever checks a number.

#include <cstdint>

namespace uroce {

inline constexpr std::uint32_t kQpnMask = 0xFF'FFFF;  // 24 bits
// IBTA vol. 1, 9.7.4.1.
inline constexpr std::uint32_t kMessageBytesMax = 1U << 31U;

}  // namespace uroce
