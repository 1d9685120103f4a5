#pragma once

// The unit in which processors share memory.

#include <cstddef>

namespace uroce {

inline constexpr std::size_t kCacheLine = 64;  // bytes

}  // namespace uroce
