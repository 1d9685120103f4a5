#pragma once

// Removes the shim from the daemon's own environment: DPDK's mlx drivers load libibverbs.so.1, and
// would find the shim if LD_LIBRARY_PATH or LD_PRELOAD of a `uroce run` shell is inherited.

namespace uroce::control {

// If the shim is in the environment, re-executes this program without it; else returns.
void restart_without_shim(char** argv);

}  // namespace uroce::control
