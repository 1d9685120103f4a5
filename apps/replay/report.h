#pragma once

// What a replay did, as text: the plan as a script (script.h), a line for each frame, counts. The
// same capture gives the same text.

#include <iosfwd>

#include "apps/replay/replay.h"

namespace uroce::replay {

void print_report(const ParsedFrames& frames, const Plan& plan, const Outcome& outcome,
                  std::ostream& out);

}  // namespace uroce::replay
