#pragma once

// A short sleep at an empty completion queue to let other threads run.

#include <cstdint>

#include "base/time.h"
#include "verbs_shim/objects/objects.h"

namespace uroce::shim {

// Sleeps for at most `longest`; less if `completions` completions have arrived, or if one has and
// the worker has little else to do; not at all if one is there. True: there is one now. Preserves
// errno; no cancellation point.
bool nap(const Cq& cq, std::uint32_t completions, Duration longest);

}  // namespace uroce::shim
