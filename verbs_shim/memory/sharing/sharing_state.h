#pragma once

// The per-process state of shared memory.

#include <mutex>

#include "verbs_shim/memory/sharing/address_watch.h"
#include "verbs_shim/memory/sharing/arena_file.h"
#include "verbs_shim/memory/sharing/conversion_thread.h"
#include "verbs_shim/memory/sharing/fork_wait.h"
#include "verbs_shim/memory/sharing/invalidations.h"
#include "verbs_shim/memory/sharing/memory_map.h"
#include "verbs_shim/memory/sharing/run_rooms.h"

namespace uroce::shim {

struct SharingState {
  // Guards the members before `watch`, and is held while the process forks. The holder may use the
  // heap, unless it has claimed addresses of the watch.
  std::mutex mutex;
  ArenaList arenas;
  ConversionThread converter;
  ForkWait fork_wait;
  MemoryMap map;
  bool share = true;  // UROCE_MEMORY is not "copy"

  AddressWatch watch;
  MemoryMap maps[AddressWatch::kChangersMax];  // one per place in the watch
  Invalidations invalidations;
  RunRooms run_rooms;
};

// One per process. Never destroyed: the program may register memory until it exits.
SharingState& sharing_state();

}  // namespace uroce::shim
