#pragma once

// Hooks libc's own munmap, madvise and so on: all calls of them continue in memory_calls.h, through
// whatever library's tables, from libraries loaded later, and from inside libc (malloc and
// pthreads).

#include "base/refusal.h"

namespace uroce::shim {

// Hooks all of them that aren't hooked yet. One caller at a time. Doesn't use the loader, nor the
// heap. Error: EOPNOTSUPP with a sentence that names the function that can't be
// hooked; others may then be hooked, which is harmless.
DoneOrRefusal patch_libc();

// Whether libc's madvise still calls ours, even if it has been changed since.
bool drops_are_seen();

}  // namespace uroce::shim
