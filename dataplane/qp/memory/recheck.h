#pragma once

// Between a packet whose bytes are collected for /proc/PID/mem (proc_mem_access.h) and the copy
// that stores them, the program may have deregistered the memory or unmapped it, and may use it, or
// its addresses, for something else: the packets that came after needn't have touched it again. So
// what gave access to it is looked up once more before the copy is submitted.

#include "dataplane/qp/memory/memory.h"
#include "mmu/proc_mem/proc_mem_copy.h"

namespace uroce {

// Whether the memory is still registered under the same keys, and on demand, whether its pages are
// still what they were: kLost if not. After changes that keep their contents (a fork, an eviction)
// they must be resident again: kNotResident, and with `waits` the role is parked for the fault.
Access recheck(const MemoryScope& scope, const ProcMemCopy& collected, bool waits);

}  // namespace uroce
