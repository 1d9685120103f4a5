#pragma once

// What a mapping is, as far as sharing it goes. docs/memory.md has the table.

#include "verbs_shim/memory/sharing/memory_map.h"

namespace uroce::shim {

enum class MemoryKind : std::uint8_t {
  kPrivate,  // can be converted
  kFile,     // shared already, by its file
  kOther,    // stacks, malloc's state, .data, private files, special mappings: only /proc/PID/mem
};

// The kind of the area's memory from `first` to same_kind_until(), which looks no further than
// `end`. `map`, to see what lies below: stacks of threads are known by their guards. REQUIRES:
// `first` lies in the area and is a whole page.
MemoryKind kind_of(const MappedArea& area, std::uint64_t first, MemoryMap& map);
std::uint64_t same_kind_until(const MappedArea& area, std::uint64_t first, std::uint64_t end);

}  // namespace uroce::shim
