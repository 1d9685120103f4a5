#pragma once

// Telling whoever started the daemon that programs can connect.

namespace uroce::control {

// READY=1 to systemd (or whoever set NOTIFY_SOCKET), and a byte to `ready_descriptor` if it isn't
// negative, which is then closed. What can't be told is nobody's loss: errors are ignored.
void notify_ready(int ready_descriptor);

}  // namespace uroce::control
