#pragma once

// Notifies the service manager that programs can connect, and that the daemon is alive.

#include "base/time.h"

namespace uroce::control {

// Sends READY=1 to NOTIFY_SOCKET (systemd), and a byte to `ready_descriptor`, which is then closed,
// if it isn't negative. Errors are ignored.
void notify_ready(int ready_descriptor);

// Sends WATCHDOG=1 to NOTIFY_SOCKET.
void notify_alive();
// The interval at which to call notify_alive(): half of WATCHDOG_USEC; 0: never.
[[nodiscard]] Duration notify_alive_interval();

}  // namespace uroce::control
