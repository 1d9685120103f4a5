#pragma once

// The parts of arenas that an address range maps, collected before the program unmaps it, so that
// their pages can be freed afterwards. Until then no slot is used again of which one is a part: by
// another thread's registration, whose memory it would empty.

#include <cstdint>

#include "verbs_shim/memory/hooks/mapping_change.h"
#include "verbs_shim/memory/sharing/run_rooms.h"

namespace uroce::shim {

class ArenaRuns {
 public:
  // REQUIRES: `range` belongs to the change. Uses no heap, and maps nothing.
  ArenaRuns(SharingState& state, const Change& change, AddressWatch::Range range);
  ~ArenaRuns();  // preserves errno
  ArenaRuns(const ArenaRuns&) = delete;
  ArenaRuns& operator=(const ArenaRuns&) = delete;

  // Frees their pages. If the process forks, or many threads do this at a time with many runs, the
  // rest stays until its place is reused. Preserves errno.
  void punch() const;

 private:
  static constexpr std::uint64_t kFew = 64;  // some threads have small stacks

  void collect(const Change& change, AddressWatch::Range range);
  bool add(const ArenaRun& run);
  [[nodiscard]] const ArenaRun& run(std::uint64_t index) const {
    return index < kFew ? few_[index] : more_[index - kFew];
  }

  SharingState& state_;
  std::uint64_t count_ = 0;
  ArenaRun few_[kFew];
  ArenaRun* more_ = nullptr;  // the others
  ArenaRun* last_ = nullptr;
};

}  // namespace uroce::shim
