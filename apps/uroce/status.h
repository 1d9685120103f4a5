#pragma once

// `uroce status`: what the daemon says of itself.

namespace uroce {

// Returns the exit status: 0, or 1 after a line on stderr.
int show_status(bool json);

}  // namespace uroce
