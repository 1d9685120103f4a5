#pragma once

// `uroce odp`: what the daemon says of on-demand paging.

namespace uroce {

// Returns the exit status: 0, or 1 after a line on stderr.
int show_odp(bool json, bool trace);

}  // namespace uroce
