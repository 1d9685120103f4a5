#pragma once

// DPDK's runtime folders, one per process: /var/run/dpdk/uroce-PID. A daemon that is killed leaves
// its folder behind.

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace uroce {

// Lets DPDK create them where other users can't write: without XDG_RUNTIME_DIR it uses /tmp/dpdk
// for ordinary users. REQUIRES: the process has one thread. EPERM: see make_private_folder.
Status use_private_runtime_folder();

// Where DPDK creates them for this user.
[[nodiscard]] std::string dpdk_folder();

// Locks the folder to mark it as in use, also for daemons that can't see our process number
// (containers). Invalid: it couldn't be locked; then only the process number counts.
[[nodiscard]] UniqueFd lock_folder(const std::string& path);

// Removes the unlocked folders NAME-PID in `parent` that are ours and whose process is gone. If
// others may write to `parent`, nothing is removed. Errors are ignored.
void remove_dead_folders(const std::string& parent, const std::string& name);

}  // namespace uroce
