#pragma once

// The status report as rte_telemetry commands, for DPDK's own tools:
//
//   /uroce/devices   /uroce/workers   /uroce/sessions   /uroce/qps,SESSION
//
// Telemetry's callbacks run in its own thread, which may not access the card; it asks the control
// thread as any client does.

#include <string>

#include "base/result.h"

namespace uroce::control {

// REQUIRES: the EAL runs. `socket` is the daemon's own.
Status register_telemetry(const std::string& socket);

}  // namespace uroce::control
