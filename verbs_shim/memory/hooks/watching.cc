#include "verbs_shim/memory/hooks/watching.h"

#include <cerrno>
#include <mutex>

#include "verbs_shim/memory/hooks/hook_choice.h"
#include "verbs_shim/memory/hooks/libc_patch.h"

namespace uroce::shim {
namespace {

DoneOrRefusal open_address_watch(SharingState& state) {
  state.run_rooms.open();
  if (!state.watch.open()) {
    return Refusal{ENOMEM, "no memory for the table of watched addresses"};
  }
  return Done{};
}

}  // namespace

// Of libc's functions only madvise must be hooked. If mmap, munmap or brk isn't, pages are returned
// to the system later; if mremap isn't, it refuses ranges of which parts are converted.
DoneOrRefusal watch_converted(SharingState& state) {
  if (DoneOrRefusal allowed = hooks_allowed(); !allowed) {
    return allowed;
  }
  if (DoneOrRefusal opened = open_address_watch(state); !opened) {
    return opened;
  }
  if (drops_are_seen()) {
    return Done{};
  }
  const DoneOrRefusal patched = patch_libc();
  if (drops_are_seen()) {
    return Done{};
  }
  return patched ? Refusal{EOPNOTSUPP, "another library has hooked libc's madvise since"} : patched;
}

// A fork's child starts with an empty bitmap and libc patched already.
DoneOrRefusal watch_all_changes(SharingState& state) {
  if (DoneOrRefusal allowed = hooks_allowed(); !allowed) {
    return allowed;
  }
  const std::lock_guard lock(state.mutex);
  if (state.watch.announcing()) {
    return Done{};
  }
  if (DoneOrRefusal opened = open_address_watch(state); !opened) {
    return opened;
  }
  if (DoneOrRefusal patched = patch_libc(); !patched) {
    return patched;
  }
  // Ranges registered before are marked in the bitmap, too.
  const bool all = for_each_area([&](const AreaRange& area) {
    if (state.arenas.owner_of(area) != ArenaList::kArenasMax) {
      state.watch.mark(area.start, area.end);
    }
  });
  if (!all) {
    return Refusal{EMFILE, kMapCantBeRead};
  }
  state.watch.start_announcing();
  return Done{};
}

}  // namespace uroce::shim
