#pragma once

// The command name of a process, as ps shows it.

#include <string>

#include "base/sockets/record_socket.h"

namespace uroce::control {

// Empty if the process is gone, even if its PID has been reused.
std::string program_name(const Peer& peer);

}  // namespace uroce::control
