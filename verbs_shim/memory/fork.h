#pragma once

// fork(): a child gets copies of its own of what the parent shares with the daemon, at the same
// addresses, as it would of private memory. Without that its writes would reach the parent.

#include <mutex>

namespace uroce::shim {

struct SharingState;

// Once a process. `mutex` guards `state`.
void keep_forks_apart(std::mutex& mutex, SharingState& state);

}  // namespace uroce::shim
