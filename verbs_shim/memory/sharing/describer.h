#pragma once

// Finds out how the daemon reaches each piece of a range, and converts what has to be.

#include <cstdint>
#include <optional>
#include <vector>

#include "verbs_shim/memory/sharing/registered_memory.h"
#include "verbs_shim/memory/sharing/sharing_state.h"

namespace uroce::shim {

class Describer {
 public:
  // REQUIRES: the range isn't empty and doesn't wrap; state.mutex.
  Describer(SharingState& state, std::uint64_t address, std::uint64_t length, std::uint32_t access);

  Result<MemoryDescription> run();

 private:
  void describe(const MappedArea& area, std::uint64_t first, std::uint64_t end);
  void describe_file(const MappedArea& area, std::uint64_t first, std::uint64_t end);
  bool convert(const MappedArea& area, std::uint64_t first, std::uint64_t end);
  std::optional<std::uint32_t> descriptor_of(const MappedArea& area);
  void append(const abi::MemoryPiece& piece);

  SharingState& state_;
  std::uint64_t first_;
  std::uint64_t end_;
  bool writing_;
  MemoryDescription description_;
  struct PassedFile {
    std::uint64_t inode;
    std::uint32_t device_major, device_minor;
  };
  std::vector<PassedFile> passed_;  // of each of description_.descriptors
};

}  // namespace uroce::shim
