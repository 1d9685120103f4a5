#pragma once

// The counts of tally.def.

#include <cstdint>

namespace uroce::check {

struct Tally {
#define UROCE_TALLY(name, explanation) std::uint64_t name = 0;
#include "apps/check/tally.def"
#undef UROCE_TALLY
};

}  // namespace uroce::check
