#pragma once

// Classifies mappings by how they can be shared. The table is in docs/memory.md.

#include "verbs_shim/memory/sharing/memory_map.h"

namespace uroce::shim {

enum class MemoryKind : std::uint8_t {
  kPrivate,  // can be converted
  kFile,     // already shared, through its file
  kOther,    // stacks, malloc's state, .data, private files, special mappings: only /proc/PID/mem
};

// The kind of the area's memory from `first` to same_kind_until(), which looks no further than
// `end`. `map` is needed to inspect the memory below: thread stacks are recognised by their guards.
// REQUIRES: `first` lies in the area and is a whole page.
MemoryKind kind_of(const MappedArea& area, std::uint64_t first, MemoryMap& map);
std::uint64_t same_kind_until(const MappedArea& area, std::uint64_t first, std::uint64_t end);

// The address of the main thread's control block (struct pthread), found by any thread: the library
// may be loaded by another. 0: the system doesn't tell it.
std::uint64_t main_thread_control_block();

}  // namespace uroce::shim
