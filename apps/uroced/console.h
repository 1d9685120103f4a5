#pragma once

// uroced --console: the console is a program of its own (apps/console) on the daemon's standard
// input and output.

#include <string>

#include "base/result.h"

namespace uroce {

// Starts it; when it ends, the daemon gets SIGTERM.
Status start_console(const std::string& socket);

}  // namespace uroce
