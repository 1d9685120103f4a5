#pragma once

// `uroce run`: a command with the shim in front of the system's libibverbs, and a daemon.

#include <string>
#include <vector>

namespace uroce {

struct RunOptions {
  bool network = false;        // a private daemon gets a udp port
  bool answering = false;      // even so the daemon that answers is taken, if one does
  std::string address;         // of that port; empty: those of the default route's interface
  bool tree = true;            // /sys and /dev show the card
  bool own_namespace = false;  // by mounts of the command's own
};

// Returns the command's exit status as shells give it: 127 not found, 128 + N ended by signal N.
int run_command(const std::vector<std::string>& command, const RunOptions& options);

// Runs a verbs program of apps/FOLDER with these arguments as run_command() does. `network`: a
// private daemon gets the machine's. For its help no daemon is needed, nor started.
int run_on_card(const std::string& folder, const std::string& file,
                const std::vector<std::string>& arguments, bool network = false);

// Whether the program that these words are for is to show its help.
[[nodiscard]] bool asks_for_help(const std::vector<std::string>& words);

// The libibverbs.so.1 that run_command() puts in front of the system's; empty: it isn't found.
std::string own_library();

// Becomes the program uroce-NAME (apps/NAME) with these arguments. Returns only where that fails:
// the exit code.
int run_program(const std::string& name, const std::vector<std::string>& arguments);

}  // namespace uroce
