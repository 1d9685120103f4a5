#pragma once

// Leads libc's own munmap, madvise and so on to memory_calls.h, whoever calls them and however he
// found them: through any library's tables, from a library that was loaded later, or from inside of
// libc (malloc's and the threads' own).

#include "dataplane/base/result.h"

namespace uroce::shim {

// Once a process, from a thread that may use the heap. Error: EOPNOTSUPP with a sentence that says
// which function can't be led; then some may be, which does no harm.
Status patch_libc();

}  // namespace uroce::shim
