#pragma once

// RLIMIT_MEMLOCK, charged as the kernel's ib_umem_get does: whole pages of each registration,
// overlapping ones again, summed over the process; a program with CAP_IPC_LOCK is counted but not
// refused. Enforced here rather than in the daemon, because limit and capability are the program's,
// and no resource of the daemon is concerned: shared pages can be swapped out.

#include <cstdint>

#include "base/refusal.h"

namespace uroce::shim {

// ENOMEM, with a sentence that names the limit and the registered amount.
DoneOrRefusal charge_locked_memory(std::uint64_t address, std::uint64_t length);
void uncharge_locked_memory(std::uint64_t address, std::uint64_t length);

// For a fork's child, which has no registrations.
void forget_locked_memory();

}  // namespace uroce::shim
