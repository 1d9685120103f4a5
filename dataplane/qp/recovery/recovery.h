#pragma once

// The loss recovery of the requester. Both are standard RoCEv2 to a peer of any vendor
// (docs/recovery.md).

#include <cstdint>

namespace uroce {

enum class Recovery : std::uint8_t {
  kSelective,  // only what was lost is sent again, as far as the peer buffers the rest
  kGoBackN,    // everything from the first lost packet on
};

}  // namespace uroce
