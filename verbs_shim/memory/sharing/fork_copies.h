#pragma once

// fork(): gives a child its own copies of memory that the parent shares with the daemon, at the
// same addresses, as for private memory. Without that its writes would reach the parent.

namespace uroce::shim {

struct SharingState;

// Call once per process.
void install_fork_handlers(SharingState& state);

}  // namespace uroce::shim
