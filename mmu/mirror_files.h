#pragma once

// The files in which a program says that its on-demand memory lies, made ready to be mapped.
// Nothing here trusts the program. One a session, used by the fault thread.

#include <cstdint>
#include <span>
#include <vector>

#include "abi/memory_piece.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "mmu/backing_file.h"
#include "mmu/mirror.h"

namespace uroce {

class MirrorFiles {
 public:
  static constexpr std::size_t kArenasMax = 16;

  // The program, as the kernel says who it is.
  MirrorFiles(int pid, std::uint32_t uid) : pid_(pid), uid_(uid) {}

  // Arenas have numbers in the order in which they came.
  Status add_arena(UniqueFd memfd, std::uint64_t page_size);

  // The piece as the mirror maps it. What can't be mapped becomes remote; EINVAL for nonsense.
  // `opened` keeps what had to be opened for it until the mirror has mapped it.
  Result<MirrorPiece> resolve(const abi::MemoryPiece& piece, bool write,
                              std::span<const UniqueFd> descriptors, std::vector<UniqueFd>* opened);

 private:
  struct Arena {
    UniqueFd memfd;
    FileFacts facts;
  };

  int pid_;
  std::uint32_t uid_;
  std::vector<Arena> arenas_;
};

}  // namespace uroce
