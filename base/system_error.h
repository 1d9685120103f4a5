#pragma once

// Errors of system calls as the user reads them.

#include "base/result.h"

namespace uroce {

// The current errno: "<what>: <what the system says>".
Error system_error(const char* what);

}  // namespace uroce
