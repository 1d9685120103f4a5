#pragma once

// The name under which a process runs, as ps shows it.

#include <sys/types.h>

#include <string>

namespace uroce::control {

// Empty when the process is gone.
std::string program_name(pid_t pid);

}  // namespace uroce::control
