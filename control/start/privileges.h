#pragma once

// The rights that a daemon keeps once it is started: capabilities for its ports and for the
// programs it serves, and none to get more.

#include <cstdint>

#include "base/result.h"
#include "control/start/options.h"

namespace uroce::control {

using Capabilities = std::uint64_t;  // a bit for each CAP_ number

// What a running daemon with these options may need, whether it has it or not:
// ports on cards and interfaces, to reopen, to set them up and to have addresses on them; programs
// of other users (the socket's mode lets them connect), to reach their memory. Of the same user on
// loopback and udp ports: none.
Capabilities needed_capabilities(const DaemonOptions& options);

// Gives up all others in every thread, for good: no program that is started ever has more.
Status keep_only(Capabilities kept);

}  // namespace uroce::control
