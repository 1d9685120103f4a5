#pragma once

// RLIMIT_MEMLOCK, charged as the kernel's ib_umem_get does: whole pages of each registration,
// overlapping ones again, summed over the process; a program with CAP_IPC_LOCK is counted but not
// refused. Here rather than in the daemon, because the limit and the right belong to the program,
// and nothing of the daemon's is at stake: shared pages can be swapped out.

#include <cstdint>

#include "base/result.h"

namespace uroce::shim {

// ENOMEM, with a sentence that names the limit and what is registered.
Status charge_locked_memory(std::uint64_t address, std::uint64_t length);
void uncharge_locked_memory(std::uint64_t address, std::uint64_t length);

// In a fork's child, which holds no registrations.
void forget_locked_memory();

}  // namespace uroce::shim
