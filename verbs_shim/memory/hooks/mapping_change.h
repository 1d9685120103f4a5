#pragma once

// One change that the program makes to its mappings, from before its system call until after it:
// daemons that know the range are told, and helper threads stay away from it.
//
// It runs inside of malloc, with malloc's locks held: nothing here uses the heap, or waits for a
// thread that could.

#include <signal.h>

#include <cstdint>

#include "abi/paging_records.h"
#include "verbs_shim/memory/sharing/invalidations.h"
#include "verbs_shim/memory/sharing/sharing_state.h"

namespace uroce::shim {

// While it lives, signals are blocked, because a handler that frees memory must not run in the
// middle of a change; and the thread can't be cancelled, because the calls that we replace are no
// cancellation points, while some that we make are.
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
  // `covered`: what the call maps over besides, if it does.
  Change(SharingState& state, const void* address, std::uint64_t length,
         abi::InvalidateReason reason, const void* covered = nullptr,
         std::uint64_t covered_length = 0);
  ~Change();  // leaves errno as it is
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;

  // Whether the daemon was ever told of any of it. If not, nothing of it is converted either.
  [[nodiscard]] bool described() const { return parts_[0].described || parts_[1].described; }
  // The range is unmapped, or is about to be; and it wasn't after all.
  void forget() { state_.watch.forget(start(), end()); }
  void remember() { state_.watch.mark(start(), end()); }

  [[nodiscard]] std::uint64_t start() const { return parts_[0].range.start; }
  [[nodiscard]] std::uint64_t end() const { return parts_[0].range.end; }
  [[nodiscard]] AddressWatch::Range covered() const { return parts_[1].range; }

  // The process' mappings, for this change alone.
  [[nodiscard]] MemoryMap& map() const { return state_.maps[place_]; }
  // Whether a fork's child may still have to read what lies in the arenas.
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

// The places in arenas that a range maps, collected before it is unmapped.
class ArenaRuns {
 public:
  // REQUIRES: `range` belongs to the change.
  ArenaRuns(SharingState& state, const Change& change, AddressWatch::Range range);
  // Gives their pages back. Where there are more runs than fit, or the process forks, the rest
  // stays until its place is used again.
  void punch() const;

 private:
  static constexpr unsigned kRunsMax = 64;
  struct Run {
    std::uint32_t arena;
    std::uint64_t offset, length;
  };
  SharingState& state_;
  Run runs_[kRunsMax];
  unsigned count_ = 0;
};

}  // namespace uroce::shim
