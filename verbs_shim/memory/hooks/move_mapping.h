#pragma once

// mremap for partly converted memory. The kernel moves only single mappings, and would let
// converted memory grow into its neighbours' places in the arena. (Huge pages are left to the
// kernel: each mapping of them is moved and grown separately.)

#include "verbs_shim/memory/hooks/mapping_change.h"
#include "verbs_shim/memory/sharing/sharing_state.h"

namespace uroce::shim {

struct Move {
  std::uint64_t address;
  std::uint64_t old_length;
  std::uint64_t new_length;
  int flags;  // MREMAP_*
  std::uint64_t wanted;
};

// As mremap: the new address, or MAP_FAILED and errno. REQUIRES: both ranges belong to the change.
void* move_mapping(SharingState& state, const Change& change, const Move& move);

}  // namespace uroce::shim
