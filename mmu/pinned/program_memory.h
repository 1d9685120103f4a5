#pragma once

// The daemon's side of sharing memory: maps what a program passes and makes regions of it.
//
// One per session, owned and called by the control thread. A Region keeps its mappings alive, also
// after the ProgramMemory is gone, so that a dying session just drops both. Nothing here trusts the
// program: descriptors, offsets and lengths are checked, files can be truncated later
// (mmu/copies/copy.h guards against it), and the number of mappings is bounded.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "abi/memory_piece.h"
#include "base/program_process.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "mmu/backing_file.h"
#include "mmu/region.h"

namespace uroce {

class Account;
class ProcMemThread;

class ProgramMemory {
 public:
  static constexpr std::size_t kArenasMax = abi::kArenasMax;

  // `account`: what its mappings and descriptors are charged to.
  explicit ProgramMemory(std::shared_ptr<Account> account);
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

  // Whether the pieces are the pages of the request's range, in order: make_region() refuses
  // others. EINVAL
  static Status check(const Request& request, std::span<const abi::MemoryPiece> pieces);

  // Files that aren't passed but opened by the process's number. That waits for the program's
  // locks, so not every thread may do it (control/foreign).
  struct Opened {
    // One for each mapping that kMapFiles pieces name, in order; not valid: not available. The
    // pieces of a mapping follow each other, since they are sorted.
    std::vector<OpenedFile> files;
    std::optional<Result<UniqueFd>> memory;  // if some of it is accessed through /proc/PID/mem
  };
  // Whether a region of these rights has to be mapped for writing.
  static bool is_writing(std::uint32_t access);
  // More mappings are accessed through /proc/PID/mem. Programs name a mapping only where they can't
  // pass its file, so that one is rarely named. Opening this many takes some 0.3 s of the second
  // that a helper has.
  static constexpr std::size_t kFilesMax = 4096;
  // How many descriptors open() keeps open for these pieces at most; to be charged before.
  static std::size_t files_to_open(std::span<const abi::MemoryPiece> pieces);
  // Whether make_region() needs something opened for these pieces.
  [[nodiscard]] bool must_open(std::span<const abi::MemoryPiece> pieces) const;
  // Opens it; independent of the ProgramMemory, which may be gone when it is done.
  static Opened open(const ProgramProcess& program, std::span<const abi::MemoryPiece> pieces,
                     bool writable);

  // A region ready for KeyTable::add. `pieces` as in abi::MemoryPiece; `descriptors` stay the
  // caller's; `opened` is what open() gave for the same pieces. Errors: as check(), EFAULT for
  // memory that can't be accessed as asked, ENOMEM for a bound on mappings, EPERM when the
  // program's memory can't be reached at all; the sentence says which.
  Result<std::unique_ptr<Region>> make_region(const Request& request,
                                              std::span<const abi::MemoryPiece> pieces,
                                              std::span<const int> descriptors, Opened opened = {});

  // The helper thread for memory that isn't mapped; nullptr: none so far.
  [[nodiscard]] const std::shared_ptr<ProcMemThread>& program() const { return program_; }

 private:
  struct Arena;
  struct Reached;
  struct Means;
  class NamedMappings;

  Result<Reached> reach(const abi::MemoryPiece& piece, Means* means);
  Result<Reached> reach_arena(const abi::MemoryPiece& piece, Means* means);
  Result<Reached> reach_descriptor(const abi::MemoryPiece& piece, Means* means);
  Result<Reached> reach_file(const abi::MemoryPiece& piece, int descriptor, const FileFacts& facts,
                             Means* means);
  Result<Reached> reach_map_files(const abi::MemoryPiece& piece, Means* means);
  Status open_remote(std::optional<Result<UniqueFd>>& opened);

  std::shared_ptr<Account> account_;
  std::vector<Arena> arenas_;
  struct Remote;
  std::shared_ptr<Remote> remote_;          // the program's memory, opened when first needed
  std::shared_ptr<ProcMemThread> program_;  // the helper thread for it
};

}  // namespace uroce
