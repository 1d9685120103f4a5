#pragma once

// Starts routing the program's changes to its mappings through memory_calls.h.

#include "base/refusal.h"
#include "verbs_shim/memory/sharing/sharing_state.h"

namespace uroce::shim {

// Called before each conversion of memory: from then on, pages that the program drops are emptied.
// Errors: as patch_libc(); memory must then stay unconverted. ENOMEM. REQUIRES: the state's mutex
// is held.
DoneOrRefusal watch_converted(SharingState& state);

// Called before memory is paged on demand: from then on all changes are announced. Errors: as
// above.
DoneOrRefusal watch_all_changes(SharingState& state);

}  // namespace uroce::shim
