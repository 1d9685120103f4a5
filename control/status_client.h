#pragma once

// Asks a daemon for its status report, for the uroce tool and for telemetry.

#include <string>

#include "dataplane/base/result.h"

namespace uroce::control {

// The report's JSON text, put together from its pieces. Waits for the daemon.
Result<std::string> fetch_status(const std::string& socket);

}  // namespace uroce::control
