#pragma once

// Finds out what lies at a range that the daemon asks for, and makes it shared where it isn't. Runs
// in a helper thread, whose state it belongs to: no heap, no lock besides the sharing state's.

#include <cstdint>

#include "abi/paging_records.h"
#include "verbs_shim/memory/sharing/page_conversion.h"
#include "verbs_shim/memory/sharing/sharing_state.h"

namespace uroce::shim {

// The answer. kArena: `source` is an index into SharingState::arenas; kDescriptor: into
// `descriptors`, which are the owner's to close.
struct SharedAnswer {
  std::uint64_t end = 0;  // what was looked at ends here
  std::uint32_t piece_count = 0;
  std::uint32_t descriptor_count = 0;
  int descriptors[abi::kPagingDescriptorsMax];
  abi::SharedPiece pieces[abi::kSharedPiecesMax];
};

class RangeSharer {
 public:
  // REQUIRES: start and end are whole chunks below abi::kPagingAddressEnd.
  void run(SharingState& state, std::uint64_t start, std::uint64_t end, SharedAnswer* answer);

 private:
  void look(SharingState& state, std::uint64_t start, std::uint64_t end);
  bool describe(SharingState& state, std::uint64_t first, std::uint64_t end);
  bool describe_file(std::uint64_t first, std::uint64_t end, std::uint32_t rights);
  bool convert(SharingState& state, std::uint64_t first, std::uint64_t end,
               abi::MemoryPiece* piece);
  bool append(const abi::MemoryPiece& piece, std::uint32_t rights);

  SharedAnswer* answer_ = nullptr;
  MappedArea area_;
  PageConversion conversion_;
};

}  // namespace uroce::shim
