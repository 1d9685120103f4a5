#pragma once

// What stands behind `uroce run`: options of its own, and the command, to which all behind it
// belongs.

#include <string>
#include <vector>

#include "apps/uroce/run.h"
#include "base/result.h"

namespace uroce {

struct RunLine {
  RunOptions options;
  bool help = false;  // was asked for; there may be no command then
  std::vector<std::string> command;
};

// EINVAL: which word is wrong, and what to write. Behind an option -- must stand before the
// command, which could be taken for --net's address.
Result<RunLine> parse_run_line(const std::vector<std::string>& words);

}  // namespace uroce
