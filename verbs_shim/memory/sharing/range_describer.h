#pragma once

// Determines how the daemon can access each piece of a range, and makes it shared where possible.
// Used for registrations, which describe a range once, and for on-demand paging, which describes
// chunks on request; the caller's PieceSink receives the pieces.
//
// Uses no heap, no lock and little stack itself: on demand it runs in a thread for which a thread
// that holds the heap's lock may be waiting.

#include <cstdint>
#include <optional>

#include "abi/memory_piece.h"
#include "verbs_shim/memory/sharing/page_conversion.h"
#include "verbs_shim/memory/sharing/sharing_state.h"

namespace uroce::shim {

struct WantedRange {
  std::uint64_t start, end;  // whole pages
  int rights;                // PROT_*: memory without any of them is skipped
  bool on_demand;            // selects the kind of arena for converted memory
};

// Receives the pieces. Returning false ends the description before the piece.
class PieceSink {
 public:
  // From this address on: nothing is mapped; or the mapping lacks the access rights.
  virtual bool nothing_mapped(std::uint64_t address) = 0;
  virtual bool no_access(std::uint64_t address) = 0;
  // The index of the file among those passed with the pieces; nullopt: it can't be passed.
  virtual bool place(const MappedArea& area, bool writable,
                     std::optional<std::uint32_t>* place) = 0;
  virtual bool put(const abi::MemoryPiece& piece, int protection) = 0;

  // Whether private memory may be converted; and converts it, like PageConversion::run().
  virtual bool may_convert(const MappedArea& area) = 0;
  virtual std::uint64_t convert(const Conversion& conversion) = 0;
  // The reason why it isn't converted, a literal.
  virtual void not_converted(const char* why) = 0;
  // It can't be, because the heap has no room to note its slot. (On-demand memory has none.)
  virtual void no_heap() {}

 protected:
  ~PieceSink() = default;
};

class RangeDescriber {
 public:
  // Returns where the description ends: at the range's end, or where the sink stopped it. REQUIRES:
  // state.mutex; on demand, the range is claimed.
  std::uint64_t run(SharingState& state, const WantedRange& wanted, PieceSink& sink);

 private:
  // These return where the description of a part of area_ ends, as run() does.
  std::uint64_t describe(std::uint64_t first, std::uint64_t end);
  std::uint64_t describe_file(std::uint64_t first, std::uint64_t end);
  std::uint64_t describe_private(std::uint64_t first, std::uint64_t end);
  std::uint64_t put(const abi::MemoryPiece& piece);
  // Returns where the converted part ends, and describes it; `first` if nothing is converted.
  std::uint64_t convert(std::uint64_t first, std::uint64_t end, abi::MemoryPiece* piece);

  SharingState* state_ = nullptr;
  WantedRange wanted_{};
  PieceSink* sink_ = nullptr;
  MappedArea area_;
};

// Merges two pieces if the second continues the first, both in memory and in the source.
bool join(abi::MemoryPiece& last, const abi::MemoryPiece& next);

}  // namespace uroce::shim
