#pragma once

// fork(): a child gets copies of its own of what the parent shares with the daemon, at the same
// addresses, as it would of private memory. Without that its writes would reach the parent.

namespace uroce::shim {

struct SharingState;

// Once a process.
void keep_forks_apart(SharingState& state);

}  // namespace uroce::shim
