#pragma once

// How the pages of a registered range are handed to the daemon: one record per piece of the range
// that is accessed in the same way. The shim determines the pieces (verbs_shim/memory), the daemon
// maps them (mmu/pinned/program_memory.h).

#include <cstdint>

namespace uroce::abi {

// Memfds of a session into which its program converts private memory; as many by kShareArena as by
// the paging channel.
inline constexpr std::uint32_t kArenasMax = 16;

enum class PieceKind : std::uint32_t {
  kArena = 1,   // `source` is an arena's handle, `offset` the place in it
  kDescriptor,  // `source` is an index into this record's descriptors, `offset` the place in that
                // file
  kMapFiles,  // the daemon opens /proc/<pid>/map_files/<map_start>-<map_end>, `offset` is the place
              // in that file; falls back to kProcMem if refused
  kProcMem,   // through /proc/<pid>/mem
};

struct MemoryPiece {
  std::uint64_t address;  // page-aligned, in the program
  std::uint64_t length;   // a multiple of the page size
  std::uint64_t offset;
  std::uint64_t map_start, map_end;  // kMapFiles
  PieceKind kind;
  std::uint32_t source;
};
static_assert(sizeof(MemoryPiece) == 48);

}  // namespace uroce::abi
