#pragma once

// What is done about loss. Both are RoCEv2 to the peer, of whatever make (docs/recovery.md).

#include <cstdint>

namespace uroce {

enum class Recovery : std::uint8_t {
  kSelective,  // only what was lost is sent again, as far as the peer keeps the rest
  kGoBackN,    // everything from the first lost packet on
};

}  // namespace uroce
