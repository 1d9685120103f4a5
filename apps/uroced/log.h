#pragma once

// uroced's log: lines on standard error. If that is systemd's journal, each begins with its
// priority in the form of sd-daemon(3), "<4>", so that `journalctl -p warning` finds it; so do
// those of failed checks, of a stuck worker, and of DPDK (base/journal.h).

#include <string>

#include "base/result.h"

namespace uroce {

// Finds out whether standard error is the journal; before everything else.
void begin_lines();

// Makes the default logger. `level` is one that --log-level takes.
void start_log(const std::string& level);

// Prints why the daemon doesn't start; usable before start_log().
void print_start_error(const Error& error);

}  // namespace uroce
