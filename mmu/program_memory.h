#pragma once

// The daemon's side of sharing memory: maps what a program hands over and makes regions of it.
//
// One per session, owned and called by the control thread. A Region keeps what it is mapped by
// alive, also after the ProgramMemory is gone, so that a dying session just drops both. Nothing
// here trusts the program: descriptors, offsets and lengths are checked, files can be truncated
// later (mmu/copy.h guards for it), and the number of mappings is bounded.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "abi/memory_piece.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "mmu/region.h"

namespace uroce {

struct MappingQuota;

class ProgramMemory {
 public:
  static constexpr std::size_t kArenasMax = 16;

  // The program, as the kernel says who it is (SO_PEERCRED).
  ProgramMemory(int pid, std::uint32_t uid);
  ~ProgramMemory();
  ProgramMemory(const ProgramMemory&) = delete;
  ProgramMemory& operator=(const ProgramMemory&) = delete;

  // Takes a memfd into which the program converts its private memory and returns the arena's
  // handle. EINVAL when it isn't a memfd sealed with F_SEAL_SHRINK, or its pages aren't
  // `page_size`; ENOSPC beyond kArenasMax. Each arena costs one descriptor, regions cost none.
  Result<std::uint32_t> add_arena(UniqueFd memfd, std::uint64_t page_size);

  struct Request {
    PdId pd = 0;
    std::uint32_t access = 0;   // AccessFlags
    std::uint64_t address = 0;  // in the program
    std::uint64_t length = 0;
    std::uint64_t iova = 0;
  };

  // A region ready for KeyTable::add. `pieces` as in abi::MemoryPiece; `descriptors` stay the
  // caller's. Errors: EINVAL for pieces that don't cover the range, EFAULT for memory that can't be
  // accessed as asked, ENOMEM for a bound on mappings, EPERM when the program's memory can't be
  // reached at all; the sentence says which.
  Result<std::unique_ptr<Region>> make_region(const Request& request,
                                              std::span<const abi::MemoryPiece> pieces,
                                              std::span<const int> descriptors);

 private:
  struct Arena;
  struct Reached;

  Result<Reached> reach(const abi::MemoryPiece& piece, std::span<const int> descriptors,
                        bool writable);
  Result<Reached> reach_arena(const abi::MemoryPiece& piece);
  Result<Reached> reach_file(const abi::MemoryPiece& piece, int descriptor, bool writable);
  Result<Reached> reach_map_files(const abi::MemoryPiece& piece, bool writable);
  Status open_remote();

  int pid_;
  std::uint32_t uid_;
  std::shared_ptr<MappingQuota> quota_;
  std::vector<Arena> arenas_;
  std::shared_ptr<UniqueFd> remote_;  // the program's memory, opened when first needed
};

}  // namespace uroce
