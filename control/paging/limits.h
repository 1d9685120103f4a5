#pragma once

// How much on-demand memory may be resident in the daemon at a time.

#include <cstdint>

namespace uroce::control {

struct PagingLimits {
  static constexpr std::uint64_t kMin = 16ULL << 20U;  // below, faults chase one another

  // Bytes; 0: no limit.
  std::uint64_t daemon = 0;
  std::uint64_t session = 0;
};

}  // namespace uroce::control
