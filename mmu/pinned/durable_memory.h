#pragma once

// The file-backed memory of a pinned region, held while it is flushed to disk: it outlives the
// region, so that a program can deregister, or die, in the middle of a flush, and nobody else waits
// for the disk. Any thread; the last owner unmaps.

#include <cstdint>
#include <memory>
#include <vector>

#include "mmu/access.h"
#include "mmu/region.h"

namespace uroce {

class DurableMemory {
 public:
  // As in Region::Config.
  DurableMemory(std::uint64_t program_address, std::vector<Region::Piece> pieces,
                std::vector<std::shared_ptr<const void>> holds);

  // Returns when everything stored so far in `length` bytes at the program's `address` is on stable
  // storage. kLost if that isn't certain. REQUIRES: the range is inside the region.
  [[nodiscard]] Access sync(std::uint64_t address, std::uint64_t length) const;

 private:
  std::uint64_t program_address_;
  std::vector<Region::Piece> pieces_;
  std::vector<std::shared_ptr<const void>> holds_;
};

}  // namespace uroce
