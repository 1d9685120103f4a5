#pragma once

// The name under which a process runs, as ps shows it.

#include <string>

#include "base/sockets/record_socket.h"

namespace uroce::control {

// Empty when the process is gone, also if another has its number.
std::string program_name(const Peer& peer);

}  // namespace uroce::control
