#pragma once

// The time of day. It may be set, also backwards: for display, never for measuring.

#include <chrono>
#include <cstdint>

namespace uroce {

// Milliseconds since 1970.
inline std::uint64_t unix_time_ms() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(since).count());
}

}  // namespace uroce
