#pragma once

// How long messages and page faults take, since the port or the worker began.

#include "apps/top/cells.h"

namespace uroce::top {

void add_latency(const Json& now, Lines& lines);

// Of the operation that a queue pair was timed at most often: so many of a thousand took no longer.
// 0: none was timed. `percentile`: the member's name.
[[nodiscard]] double usual_latency(const Json& qp, const char* percentile);

}  // namespace uroce::top
