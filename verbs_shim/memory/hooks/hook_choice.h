#pragma once

// Whether libc's functions may be hooked in this program. UROCE_HOOKS says it: `patch`, the
// default, or `none`, for those who want nothing of their process changed (as UCX has
// UCX_MEM_MMAP_HOOK_MODE). In a statically linked program they can't be.

#include "base/result.h"

namespace uroce::shim {

// Error: EOPNOTSUPP, with a sentence that says what is missing because of it. The variable is read
// at the first call; a value that is neither is complained about then, and counts as the default.
Status hooks_allowed();

}  // namespace uroce::shim
