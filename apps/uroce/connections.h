#pragma once

// `uroce cm`: what the connection manager of the daemon says of itself.

namespace uroce {

// Returns the exit status: 0, or 1 after a line on stderr.
int show_connections(bool json);

}  // namespace uroce
