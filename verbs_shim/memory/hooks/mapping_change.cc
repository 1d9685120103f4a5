#include "verbs_shim/memory/hooks/mapping_change.h"

#include <algorithm>
#include <cerrno>

#include "base/page.h"
#include "verbs_shim/memory/sharing/kernel_calls.h"

namespace uroce::shim {
namespace {

// Each changing thread announces at most two ranges; the daemon ends a session with more
// outstanding.
static_assert(2 * AddressWatch::kChangersMax <= abi::kInvalidationsMax);

// The kernel will refuse ranges beyond the end, or that wrap.
AddressWatch::Range whole_pages(const void* address, std::uint64_t length) {
  const std::uint64_t start =
      std::min(page_floor(kernel::number(address)), AddressWatch::kAddressEnd);
  const std::uint64_t room = AddressWatch::kAddressEnd - start;
  return {start, start + std::min(page_ceil(std::min(length, room)), room)};
}

}  // namespace

UninterruptedScope::UninterruptedScope() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &signals_before_);
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling_before_);
}

UninterruptedScope::~UninterruptedScope() {
  pthread_setcancelstate(cancelling_before_, nullptr);
  pthread_sigmask(SIG_SETMASK, &signals_before_, nullptr);
}

Change::Change(SharingState& state, const void* address, std::uint64_t length,
               abi::InvalidateReason reason, const void* covered, std::uint64_t covered_length)
    : state_(state) {
  parts_[0].range = whole_pages(address, length);
  parts_[1].range = whole_pages(covered, covered_length);
  place_ = state_.watch.enter(parts_[0].range, parts_[1].range);
  const bool announcing = state_.watch.announcing();
  if (reason == abi::InvalidateReason::kDrop && forks()) {
    reason = abi::InvalidateReason::kUnmap;  // the memory gets another offset (memory_calls.cc)
  }
  for (Part& part : parts_) {
    part.described = state_.watch.described(part.range.start, part.range.end);
    part.announced_it = announcing && part.described;
    if (part.announced_it) {
      state_.invalidations.announce(part.range.start, part.range.end, reason, &part.announced);
    }
  }
}

Change::~Change() {
  const int error = errno;
  for (const Part& part : parts_) {
    if (part.announced_it) {
      state_.invalidations.finish(part.announced);
    }
  }
  state_.watch.leave(place_);
  errno = error;
}

UnannouncedChange::UnannouncedChange(SharingState& state, const void* address, std::uint64_t length)
    : watch_(state.watch), place_(watch_.enter(whole_pages(address, length))) {}

UnannouncedChange::~UnannouncedChange() {
  const int error = errno;
  watch_.leave(place_);
  errno = error;
}

}  // namespace uroce::shim
