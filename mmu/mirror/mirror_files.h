#pragma once

// The files that a program names as the backing of its on-demand memory, prepared for mapping.
// Nothing here trusts the program. One per session, used by the fault thread.

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "abi/memory_piece.h"
#include "base/program_process.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "mmu/backing_file.h"
#include "mmu/mirror/mirror.h"
#include "shares/account.h"

namespace uroce {

class MirrorFiles {
 public:
  // `account`: charged for arenas.
  explicit MirrorFiles(std::shared_ptr<Account> account) : account_(std::move(account)) {}

  // Arenas are numbered in order of arrival. Errors: as take_arena() (mmu/backing_file.h).
  Status add_arena(UniqueFd memfd, std::uint64_t page_size);

  // The piece as the mirror maps it. What can't be mapped becomes remote; EINVAL for nonsense.
  // `opened`: the files of kMapFiles pieces in order, of which this one takes its own
  // (mmu/backing_file.h, open_map_file). They stay open until the mirror has mapped them.
  Result<MirrorPiece> resolve(const abi::MemoryPiece& piece, bool write,
                              std::span<const UniqueFd> descriptors,
                              std::span<const UniqueFd>* opened);

 private:
  std::shared_ptr<Account> account_;
  std::vector<CheckedArena> arenas_;
};

}  // namespace uroce
