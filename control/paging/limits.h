#pragma once

// Limits of on-demand memory resident in the daemon.

#include <cstdint>

namespace uroce::control {

struct PagingLimits {
  static constexpr std::uint64_t kMin = 16ULL << 20U;  // below, faults evict each other's pages

  // Bytes; 0: no limit.
  std::uint64_t daemon = 0;
  std::uint64_t session = 0;
};

}  // namespace uroce::control
