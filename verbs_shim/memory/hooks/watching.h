#pragma once

// From when on the program's changes to its mappings come to memory_calls.h.

#include "base/result.h"
#include "verbs_shim/memory/sharing/sharing_state.h"

namespace uroce::shim {

// Before memory is converted, each time: what the program drops of it will be emptied. Errors: as
// patch_libc(), and then memory must be left as it is; ENOMEM. REQUIRES: the state's mutex is held.
Status watch_converted(SharingState& state);

// Before memory is paged on demand: all changes are announced. Errors: as above.
Status watch_everything(SharingState& state);

}  // namespace uroce::shim
