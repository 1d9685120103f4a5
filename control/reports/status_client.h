#pragma once

// Asks a daemon for its reports, for the uroce tool and for telemetry.

#include <cstdint>
#include <string>

#include "abi/command_records.h"
#include "base/result.h"

namespace uroce::control {

// The report's JSON text (kStatus, kOdpStatus, kObjects), put together from its pieces. Waits for
// the daemon.
Result<std::string> fetch_status(const std::string& socket,
                                 abi::Command command = abi::Command::kStatus);

// What went wrong since the line with this number (control/reports/error_log.h), as JSON.
Result<std::string> fetch_errors(const std::string& socket, std::uint64_t after);

// Adds ("10.0.0.2/24") or removes an address of a device; the first one if it has no name.
Status change_address(const std::string& socket, const std::string& device,
                      const std::string& prefix, bool add);

}  // namespace uroce::control
