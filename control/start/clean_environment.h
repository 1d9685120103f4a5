#pragma once

// Keeps the shim away from the daemon itself: DPDK's mlx and mana drivers load libibverbs.so.1, and
// would find the shim if LD_LIBRARY_PATH or LD_PRELOAD of a `uroce run` shell is inherited, or if
// the package has put it first for all programs (ld.so.conf).

namespace uroce::control {

// If the shim is in the environment, re-executes this program without it; else returns.
void restart_without_shim(char** argv);

// Loads the libibverbs.so.1 in the folder of this process's libc, if there is one there and it
// isn't the shim: libraries that are loaded later use it, whatever ld.so.conf says. It stays
// loaded.
void load_libibverbs_of_system();

}  // namespace uroce::control
