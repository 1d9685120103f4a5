#pragma once

// Fetches reports from a daemon, for the uroce tool and telemetry.

#include <cstdint>
#include <string>

#include "abi/command_records.h"
#include "base/result.h"

namespace uroce::control {

// The report's JSON text (kStatus, kOdpStatus, kObjects, kDeviceStatus), joined from its pieces.
// Blocks until the daemon has replied.
Result<std::string> fetch_status(const std::string& socket,
                                 abi::Command command = abi::Command::kStatus);

// Lines of the error log after this number (control/reports/error_log.h), as JSON.
Result<std::string> fetch_errors(const std::string& socket, std::uint64_t after);

// Adds ("10.0.0.2/24") or removes an address of a device; the first one if `device` is empty.
Status change_address(const std::string& socket, const std::string& device,
                      const std::string& prefix, bool add);

}  // namespace uroce::control
