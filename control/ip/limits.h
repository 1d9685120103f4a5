#pragma once

// The bounds of a port as an IP host, and what it tells programs of itself.

#include <cstdint>

namespace uroce::control {

inline constexpr std::uint32_t kDevicesMax = 16;
inline constexpr std::uint32_t kGidsMax = 128;
inline constexpr std::uint32_t kPkeysMax = 1;

}  // namespace uroce::control
