#pragma once

// Limits of a port as an IP host.

#include <cstdint>

namespace uroce::control {

inline constexpr std::uint32_t kDevicesMax = 16;
inline constexpr std::uint32_t kGidsMax = 128;
inline constexpr std::uint32_t kPkeysMax = 1;

}  // namespace uroce::control
