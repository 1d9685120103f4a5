#pragma once

// Hooks libc's own munmap, madvise and so on: they go on in memory_calls.h, whoever calls them and
// however it found them: through any library's tables, from a library that was loaded later, or
// from inside of libc (malloc's and the threads' own).

#include "base/result.h"

namespace uroce::shim {

// All of them; what is hooked already stays so. One caller at a time. Doesn't use the loader, nor
// the heap unless it fails. Error: EOPNOTSUPP with a sentence that says which function can't be
// hooked; then others may be, which does no harm.
Status patch_libc();

// Whether libc's madvise comes to ours, also where somebody has changed it since.
bool drops_are_seen();

}  // namespace uroce::shim
