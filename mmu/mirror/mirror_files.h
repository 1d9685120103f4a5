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

  // The files that came with an answer of the program; each is examined once. They stay open until
  // the mirror has mapped them.
  struct Sources {
    std::span<const UniqueFd> passed;
    std::span<const OpenedFile> opened;  // of the kMapFiles pieces that aren't resolved yet
    CheckedFiles checked{};              // of those passed
  };
  // The piece as the mirror maps it. What can't be mapped becomes remote; EINVAL for nonsense.
  // REQUIRES: the pieces of an answer come in their order, with the same `sources`.
  Result<MirrorPiece> resolve(const abi::MemoryPiece& piece, bool write, Sources* sources);

 private:
  std::shared_ptr<Account> account_;
  std::vector<CheckedArena> arenas_;
};

}  // namespace uroce
