#pragma once

// The folder that a private daemon gets where the private one (base/sockets/private_folder.h) can't
// be had: new, its user's alone, and locked for as long as `uroce run` lives. What one that was
// killed has left, the next one of the same user removes.

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace uroce {

struct RunFolder {
  std::string path;
  UniqueFd lock;  // held, nobody takes the folder for a left one
};

// A new folder in `place`, /tmp for instance, once those that were left there are gone.
Result<RunFolder> make_run_folder(const std::string& place);

}  // namespace uroce
