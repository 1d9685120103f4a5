#include "verbs_shim/memory/change.h"

#include <algorithm>
#include <cerrno>

#include "verbs_shim/memory/kernel_calls.h"

namespace uroce::shim {
namespace {

constexpr std::uint64_t kPage = 4096;

// What lies beyond the end, or wraps, the kernel will refuse.
AddressWatch::Range whole_pages(const void* address, std::uint64_t length) {
  const std::uint64_t start =
      std::min(kernel::number(address) / kPage * kPage, AddressWatch::kAddressEnd);
  const std::uint64_t room = AddressWatch::kAddressEnd - start;
  return {start, start + std::min((std::min(length, room) + kPage - 1) / kPage * kPage, room)};
}

}  // namespace

SignalsBlocked::SignalsBlocked() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before_);
}

SignalsBlocked::~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

Change::Change(SharingState& state, const void* address, std::uint64_t length,
               control::InvalidateReason reason, const void* covered, std::uint64_t covered_length)
    : state_(state) {
  parts_[0].range = whole_pages(address, length);
  parts_[1].range = whole_pages(covered, covered_length);
  place_ = state_.watch.enter(parts_[0].range, parts_[1].range);
  for (Part& part : parts_) {
    part.described = state_.watch.described(part.range.start, part.range.end);
    if (part.described) {
      state_.invalidations.announce(part.range.start, part.range.end, reason, &part.announced);
    }
  }
}

Change::~Change() {
  const int error = errno;
  for (const Part& part : parts_) {
    if (part.described) {
      state_.invalidations.finish(part.announced);
    }
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
