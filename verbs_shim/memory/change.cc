#include "verbs_shim/memory/change.h"

#include <algorithm>
#include <cerrno>

#include "verbs_shim/memory/kernel_calls.h"

namespace uroce::shim {
namespace {

constexpr std::uint64_t kPage = 4096;

}  // namespace

SignalsBlocked::SignalsBlocked() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before_);
}

SignalsBlocked::~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

Change::Change(SharingState& state, const void* address, std::uint64_t length,
               control::InvalidateReason reason, bool nested)
    : state_(state),
      start_(std::min(kernel::number(address) / kPage * kPage, AddressWatch::kAddressEnd)) {
  // What lies beyond the end, or wraps, the kernel will refuse.
  const std::uint64_t room = AddressWatch::kAddressEnd - start_;
  end_ = start_ + std::min((std::min(length, room) + kPage - 1) / kPage * kPage, room);
  place_ = state_.watch.enter(start_, end_, nested);
  described_ = state_.watch.described(start_, end_);
  if (described_) {
    state_.invalidations.announce(start_, end_, reason, &announced_);
  }
}

Change::~Change() {
  const int error = errno;
  if (described_) {
    state_.invalidations.finish(announced_);
  }
  state_.watch.leave(place_);
  errno = error;
}

ArenaRuns::ArenaRuns(SharingState& state, std::uint64_t start, std::uint64_t end) : state_(state) {
  MemoryMap map;
  MappedArea area;
  for (std::uint64_t at = start; at < end && count_ < kRunsMax; at = area.end) {
    if (!map.at_or_above(at, &area) || area.start >= end) {
      return;
    }
    const std::uint32_t owner = state_.arenas.owner_of(area);
    // Memory that was registered as a whole may still be: then its pages are the peers' too.
    const bool given_back = owner != ArenaList::kArenasMax &&
                            (state_.arenas[owner].on_demand() ||
                             state_.pinned_regions.load(std::memory_order_relaxed) == 0);
    if (given_back) {
      const std::uint64_t first = std::max(at, area.start);
      runs_[count_++] = {.arena = owner,
                         .offset = area.offset + (first - area.start),
                         .length = std::min(end, area.end) - first};
    }
  }
}

void ArenaRuns::punch() const {
  const int error = errno;
  for (unsigned i = 0; i < count_; ++i) {
    static_cast<void>(state_.arenas[runs_[i].arena].punch(runs_[i].offset, runs_[i].length));
  }
  errno = error;
}

}  // namespace uroce::shim
