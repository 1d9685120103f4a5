#pragma once

// uroced's log: lines on standard error (not those of failed checks and of DPDK). If that is
// systemd's priority in the form of sd-daemon(3), "<4>", so that `journalctl -p warning` finds it.

#include <string>

#include "base/result.h"

namespace uroce {

// Makes the default logger. `level` is one that --log-level takes.
void start_log(const std::string& level);

// Prints why the daemon doesn't start; usable before start_log().
void print_start_error(const Error& error);

}  // namespace uroce
