#pragma once

// The status report as rte_telemetry commands, so that DPDK's own tools see us:
//
//   /uroce/devices   /uroce/workers   /uroce/sessions   /uroce/qps,SESSION
//
// Telemetry calls from a thread of its own, which may not touch the card; it asks the control
// thread as any client does.

#include <string>

#include "base/result.h"

namespace uroce::control {

// REQUIRES: the EAL runs. `socket` is the daemon's own.
Status register_telemetry(const std::string& socket);

}  // namespace uroce::control
