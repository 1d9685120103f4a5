#pragma once

// An arena: one sparse memfd per process and page size, in which converted memory lies.
//
// It is as large as a file can be, and sealed against shrinking, so that the daemon may map it
// without fear. Each conversion gets a slot of its own, far larger than itself: a mapping that
// mremap (realloc) enlarges finds fresh zeroes behind it instead of somebody else's pages. A
// mapping of the arena is recognised by device and inode, and its file offset is its place in the
// arena; so nothing needs to be remembered about what the program does with it later.

#include <cstdint>
#include <vector>

#include "dataplane/base/result.h"
#include "dataplane/base/unique_fd.h"
#include "verbs_shim/memory/memory_map.h"

namespace uroce::shim {

class ArenaFile {
 public:
  static constexpr std::uint64_t kSlot = 1ULL << 40U;

  static Result<ArenaFile> make(std::uint64_t page_size);

  [[nodiscard]] int descriptor() const { return memfd_.get(); }
  [[nodiscard]] std::uint64_t page_size() const { return page_size_; }
  [[nodiscard]] bool owns(const AreaRange& area) const {
    return area.shared && area.inode == inode_ && area.device_major == device_major_ &&
           area.device_minor == device_minor_;
  }

  // Whether the descriptor is still ours. Some programs close all that they don't know; pages that
  // lie in the arena stay, but nothing new may be put into whatever has the number now.
  [[nodiscard]] bool intact() const;

  // An unused place for `length` bytes that will be mapped at `address`, congruent to it modulo
  // 2 MiB so that the kernel may use huge pages. Gives back first what the program has unmapped, if
  // that may be much.
  Result<std::uint64_t> take_slot(std::uint64_t address, std::uint64_t length);

  // Gives the pages of an unused place back to the system.
  void punch(std::uint64_t offset, std::uint64_t length);

 private:
  struct Slot {
    std::uint64_t first;
    std::uint64_t end;
  };

  ArenaFile() = default;
  void reclaim();

  UniqueFd memfd_;
  std::uint64_t page_size_ = 0;
  std::uint64_t inode_ = 0;
  std::uint32_t device_major_ = 0;
  std::uint32_t device_minor_ = 0;
  std::uint64_t next_slot_ = 0;
  std::vector<Slot> slots_;                // in use, ascending
  std::uint64_t taken_since_reclaim_ = 0;  // bytes
  std::uint64_t reclaim_at_ = 64ULL << 20U;
};

}  // namespace uroce::shim
