#pragma once

// Memory that is registered as a whole: all of it is described at once, or the registration is
// refused.

#include <optional>

#include "verbs_shim/memory/pinned/registered_memory.h"
#include "verbs_shim/memory/sharing/range_describer.h"
#include "verbs_shim/memory/sharing/shared_file.h"

namespace uroce::shim {

inline constexpr const char* kNoHeap = "the program has no memory left to describe the region by";

class PinnedRange final : private PieceSink {
 public:
  // REQUIRES: state.mutex
  explicit PinnedRange(SharingState& state) : state_(state) {}

  // Implements describe_memory(). REQUIRES: the range isn't empty and doesn't wrap.
  OrRefusal<MemoryDescription> describe(std::uint64_t address, std::uint64_t length,
                                        std::uint32_t access);

 private:
  bool nothing_mapped(std::uint64_t address) override;
  bool no_access(std::uint64_t address) override;
  bool place(const MappedArea& area, bool writable, std::optional<std::uint32_t>* place) override;
  bool put(const abi::MemoryPiece& piece, int protection) override;
  bool may_convert(const MappedArea& area) override;
  std::uint64_t convert(const Conversion& conversion) override;
  void not_converted(const char* why) override { description_.unconverted_reason = why; }
  void no_heap() override;
  bool refuse(int code, const Sentence& message);

  // One descriptor of a record is reserved for the list of pieces.
  static constexpr std::uint32_t kFilesMax = kDescriptorsMax - 1;

  SharingState& state_;
  bool writing_ = false;
  Refusal refusal_;  // code 0: none
  PassedFiles files_{kFilesMax};
  MemoryDescription description_;
};

}  // namespace uroce::shim
