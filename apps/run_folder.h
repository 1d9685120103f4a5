#pragma once

// Folders of `uroce run`: that of the card's files (apps/tree), and the one that a private daemon
// gets where the private one (base/sockets/private_folder.h) can't be had. New, their user's alone,
// and locked for as long as they are in use. What one that was killed has left, the next one of the
// same user removes.

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace uroce {

struct RunFolder {
  std::string path;
  UniqueFd lock;  // held, nobody takes the folder for a left one
};

// What their names begin with.
inline constexpr std::string_view kDaemonFolder = "uroce-run-";
inline constexpr std::string_view kTreeFolder = "uroce-tree-";

// A new folder in `place`, /tmp for instance, once those that were left there are gone.
Result<RunFolder> make_run_folder(const std::string& place, std::string_view prefix);

}  // namespace uroce
