#pragma once

// Notifies the service manager that programs can connect, and that the daemon lives.

#include "base/time.h"

namespace uroce::control {

// READY=1 to systemd (or whoever set NOTIFY_SOCKET), and a byte to `ready_descriptor` if it isn't
// negative, which is then closed. What can't be told is nobody's loss: errors are ignored.
void notify_ready(int ready_descriptor);

// WATCHDOG=1, to systemd again.
void notify_alive();
// How often it wants to hear that, at least (WATCHDOG_USEC, halved); 0: not at all.
[[nodiscard]] Duration notify_alive_interval();

}  // namespace uroce::control
