#pragma once

// The privileges that a daemon keeps after start-up: capabilities for its ports and for the
// programs it serves, and no way to gain more.

#include "base/capabilities.h"
#include "base/result.h"
#include "control/start/options.h"

namespace uroce::control {

// Capabilities that a running daemon with these options may need, whether it has them or not: for
// ports on cards and interfaces, to reopen and configure them and to add addresses; for programs of
// other users (if the socket's mode lets them connect), to access their memory. For programs of the
// same user on loopback and udp ports: none.
Capabilities needed_capabilities(const DaemonOptions& options);

// Drops all others in every thread, permanently: no program started later gains more.
Status keep_only(Capabilities kept);

}  // namespace uroce::control
