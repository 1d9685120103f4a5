#pragma once

// The file behind a shared mapping, for the daemon to map too.

#include "base/unique_fd.h"
#include "verbs_shim/memory/sharing/memory_map.h"

namespace uroce::shim {

// A descriptor of the file that `area` maps, open for writing if `writable`; not valid where the
// program can't open it (a segment of System V, an anonymous shared mapping: only a privileged
// process reaches those).
UniqueFd open_shared_file(const MappedArea& area, bool writable);

}  // namespace uroce::shim
