#pragma once

// The tree by mounts: what a static program, a file manager, or anything that doesn't call libc's
// functions sees of /sys and /dev (`uroce run --namespace`).

#include <string>

#include "base/result.h"

namespace uroce {

// From here on this process, and what it starts, has mounts of its own, in which the tree lies over
// /sys and /dev. An ordinary user gets them by a user namespace in which he is himself. What is
// plugged in later below another root of /sys/devices or /dev isn't seen. REQUIRES: one thread.
Status mount_tree(const std::string& tree);

}  // namespace uroce
