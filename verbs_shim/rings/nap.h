#pragma once

// A sleep beside an empty completion queue, so that somebody else gets the processor.

#include <cstdint>

#include "base/time.h"
#include "verbs_shim/objects/objects.h"

namespace uroce::shim {

// Sleeps for `longest` at most; less if so many completions come, or if one comes and the worker
// has little else to do; not at all if one is there. True: one is there now. Leaves the program's
// errno alone, and is no cancellation point.
bool nap(const Cq& cq, std::uint32_t completions, Duration longest);

}  // namespace uroce::shim
