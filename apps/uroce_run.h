#pragma once

// `uroce run`: a command with the shim in front of the system's libibverbs, and a daemon.

#include <string>
#include <vector>

namespace uroce {

struct RunOptions {
  bool network = false;  // a private daemon gets a udp port
  std::string address;   // of that port; empty: those of the default route's interface
};

// Returns the command's exit status as shells give it: 127 not found, 128 + N ended by signal N.
int run_command(const std::vector<std::string>& command, const RunOptions& options);

// Becomes uroce-replay with these arguments. Returns only where that fails: the exit code.
int run_replay(const std::vector<std::string>& arguments);

}  // namespace uroce
