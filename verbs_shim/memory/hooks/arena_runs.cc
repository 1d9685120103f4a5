#include "verbs_shim/memory/hooks/arena_runs.h"

#include <algorithm>
#include <cerrno>

namespace uroce::shim {

ArenaRuns::ArenaRuns(SharingState& state, const Change& change, AddressWatch::Range range)
    : state_(state) {
  collect(change, range);
  for (std::uint64_t i = 0; i < count_; ++i) {
    state_.arenas[run(i).arena].being_emptied().add(run(i).offset, run(i).length);
  }
}

void ArenaRuns::collect(const Change& change, AddressWatch::Range range) {
  if (change.forks()) {
    return;
  }
  MappedArea area;
  for (std::uint64_t at = range.start; at < range.end; at = area.end) {
    if (!change.map().at_or_above(at, &area) || area.start >= range.end) {
      return;
    }
    const std::uint32_t owner = state_.arenas.owner_of(area);
    if (owner == ArenaList::kArenasMax) {
      continue;
    }
    const std::uint64_t first = std::max(at, area.start);
    const ArenaRun run{.arena = owner,
                       .offset = area.offset + (first - area.start),
                       .length = std::min(range.end, area.end) - first};
    // Pinned memory may still be registered: then its pages are shared with peers, too.
    if (!state_.arenas[owner].pins().any(run.offset, run.length) && !add(run)) {
      return;
    }
  }
}

ArenaRuns::~ArenaRuns() {
  for (std::uint64_t i = 0; i < count_; ++i) {
    state_.arenas[run(i).arena].being_emptied().remove(run(i).offset, run(i).length);
  }
  if (more_ != nullptr) {
    const int error = errno;
    state_.run_rooms.give_back(more_);
    errno = error;
  }
}

bool ArenaRuns::add(const ArenaRun& run) {
  if (last_ != nullptr && last_->arena == run.arena &&
      last_->offset + last_->length == run.offset) {
    last_->length += run.length;
    return true;
  }
  if (count_ == kFew) {
    more_ = state_.run_rooms.take();
  }
  if (count_ >= kFew && (more_ == nullptr || count_ - kFew == state_.run_rooms.size())) {
    return false;
  }
  last_ = count_ < kFew ? few_ + count_ : more_ + (count_ - kFew);
  *last_ = run;
  ++count_;
  return true;
}

void ArenaRuns::punch() const {
  const int error = errno;
  for (std::uint64_t i = 0; i < count_; ++i) {
    (void)state_.arenas[run(i).arena].punch(run(i).offset, run(i).length);
  }
  errno = error;
}

}  // namespace uroce::shim
