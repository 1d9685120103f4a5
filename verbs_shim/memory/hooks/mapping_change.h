#pragma once

// One change of the program to its mappings, from before the system call until after it: daemons
// that know the range are notified, and helper threads don't access it meanwhile.
//
// It may run inside malloc, with malloc's locks held: nothing here uses the heap, or waits for a
// thread that might.

#include <signal.h>

#include <cstdint>

#include "abi/paging_records.h"
#include "verbs_shim/memory/sharing/invalidations.h"
#include "verbs_shim/memory/sharing/sharing_state.h"

namespace uroce::shim {

// Blocks signals, because a handler that frees memory must not run during a change, and disables
// cancellation, because the replaced calls are no cancellation points, while some calls made here
// are.
class UninterruptedScope {
 public:
  UninterruptedScope();
  ~UninterruptedScope();
  UninterruptedScope(const UninterruptedScope&) = delete;
  UninterruptedScope& operator=(const UninterruptedScope&) = delete;

 private:
  sigset_t signals_before_;
  int cancelling_before_ = 0;
};

class Change {
 public:
  // `covered`: another range that the call replaces, if any.
  Change(SharingState& state, const void* address, std::uint64_t length,
         abi::InvalidateReason reason, const void* covered = nullptr,
         std::uint64_t covered_length = 0);
  ~Change();  // preserves errno
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;

  // Whether any of it was ever described to the daemon. If not, none of it is converted either.
  [[nodiscard]] bool described() const { return parts_[0].described || parts_[1].described; }
  // forget(): the range is unmapped, or is about to be. remember(): it wasn't after all.
  void forget() { state_.watch.forget(start(), end()); }
  void remember() { state_.watch.mark(start(), end()); }

  [[nodiscard]] std::uint64_t start() const { return parts_[0].range.start; }
  [[nodiscard]] std::uint64_t end() const { return parts_[0].range.end; }
  [[nodiscard]] AddressWatch::Range covered() const { return parts_[1].range; }

  // The process's mappings, for use in this change only.
  [[nodiscard]] MemoryMap& map() const { return state_.maps[place_]; }
  // Whether a fork's child may still have to read the arenas.
  [[nodiscard]] bool forks() const { return state_.watch.forks(place_); }

 private:
  struct Part {
    AddressWatch::Range range;
    bool described = false;
    bool announced_it = false;
    Invalidations::Announced announced;
  };

  UninterruptedScope undisturbed_;
  SharingState& state_;
  Part parts_[2];
  unsigned place_;
};

// A change that takes nothing away from the range, so no daemon has to know: it only keeps helper
// threads out, which would otherwise put back what they have read before.
class UnannouncedChange {
 public:
  UnannouncedChange(SharingState& state, const void* address, std::uint64_t length);
  ~UnannouncedChange();  // preserves errno
  UnannouncedChange(const UnannouncedChange&) = delete;
  UnannouncedChange& operator=(const UnannouncedChange&) = delete;

 private:
  UninterruptedScope undisturbed_;
  AddressWatch& watch_;
  unsigned place_;
};

}  // namespace uroce::shim
