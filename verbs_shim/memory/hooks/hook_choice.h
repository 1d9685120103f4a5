#pragma once

// Whether libc's functions may be hooked in this program. UROCE_HOOKS is `patch`, the default, or
// `none`, to leave the process unpatched (compare UCX_MEM_MMAP_HOOK_MODE of UCX). Statically linked
// programs can't be hooked.

#include <link.h>

#include <span>

#include "base/refusal.h"

namespace uroce::shim {

// Error: EOPNOTSUPP, with a sentence that names the unavailable feature. The variable is read at
// the first call; any other value is reported then and treated as the default.
DoneOrRefusal hooks_allowed();

// Whether the program is statically linked, and loaded us by dlopen. `headers`: those of the
// program that the kernel passed to it; empty: none.
bool is_statically_linked(std::span<const ElfW(Phdr)> headers);

}  // namespace uroce::shim
