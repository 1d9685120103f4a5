#pragma once

// Memory that the daemon asks for, a few chunks at a time: describes what is mapped there, as far
// as it fits into the answer, and makes private memory shared. Runs in a helper thread and is part
// of its state: uses no heap, and no lock besides the sharing state's.

#include <cstdint>
#include <optional>

#include "abi/paging_records.h"
#include "verbs_shim/memory/sharing/page_conversion.h"
#include "verbs_shim/memory/sharing/range_describer.h"
#include "verbs_shim/memory/sharing/shared_file.h"

namespace uroce::shim {

// The answer. kArena: `source` is an index into SharingState::arenas; kDescriptor: into `files`.
struct SharedAnswer {
  std::uint64_t end = 0;  // end of the described range
  std::uint32_t piece_count = 0;
  abi::SharedPiece pieces[abi::kSharedPiecesMax];
  PassedFiles files{abi::kPagingDescriptorsMax};
};

class PagedRange final : private PieceSink {
 public:
  // REQUIRES: start and end are whole chunks below abi::kPagingAddressEnd.
  void run(SharingState& state, std::uint64_t start, std::uint64_t end, SharedAnswer* answer);

  // See PageConversion::end().
  void end() { conversion_.end(); }

 private:
  // Addresses without a piece are unmapped.
  bool nothing_mapped(std::uint64_t /*address*/) override { return true; }
  bool no_access(std::uint64_t /*address*/) override { return true; }
  bool place(const MappedArea& area, bool writable, std::optional<std::uint32_t>* place) override;
  bool put(const abi::MemoryPiece& piece, int protection) override;
  bool may_convert(const MappedArea& area) override;
  std::uint64_t convert(const Conversion& conversion) override {
    return conversion_.run(conversion);
  }
  void not_converted(const char* /*why*/) override {}
  void drop_unnamed_files();

  SharedAnswer* answer_ = nullptr;
  RangeDescriber describer_;
  PageConversion conversion_;
};

}  // namespace uroce::shim
