#pragma once

// Tracks which addresses are being changed at the moment, and which were ever described to a daemon
// or converted.
//
// The program's threads change mappings (memory_calls.cc) while helper threads of ours look at them
// and convert them (paging_helper.cc). Two rules keep them apart:
//
//   a changer enters its range in a list before it checks whether the range was ever described;
//   a helper claims its range before it reads that list, and marks the range as described before
//   it looks at the mappings.
//
// So one of the two sees the other. Changers that came first finish; those that come after a helper
// has claimed a range wait for it. (If helpers gave way, a program that changes mappings in a loop
// would never let them in, and its peers' requests would time out.) A changer of two ranges enters
// both at once: holding one of them, it could wait for a helper that waits for it. Nothing here
// allocates, and the only blocking is on futexes.
//
// tests/unit/shim/address_watch_model.h tries all orders of the steps below in a small state
// machine: that a changer and a helper are never at the same memory, that no change of described
// memory goes unannounced, that helpers get in, that a fork's child finds its pages, and that
// nothing deadlocks. Any change of a step here has to be made there, too.
//
// A process that pins memory and pages nothing on demand has no helpers. There a changer may check
// the table of described ranges before it enters: nobody changes memory while it is being
// registered, and what was registered before is marked.

#include <atomic>
#include <cstdint>

#include "verbs_shim/memory/sharing/event_count.h"

namespace uroce::shim {

class AddressWatch {
 public:
  static constexpr std::uint64_t kChunk = 2ULL << 20U;
  static constexpr std::uint64_t kAddressEnd = 1ULL << 47U;
  static constexpr unsigned kChangersMax = 64;

  struct Range {
    std::uint64_t start;
    std::uint64_t end;  // not above start: empty
  };

  // Before anything else. False: no memory for the book.
  bool open();

  // From now on changes are announced. REQUIRES: open.
  void start_announcing();
  // Relaxed: the first region on demand exists only after it was set, and a call that was made
  // before can't concern it.
  [[nodiscard]] bool announcing() const {
    return book_ != nullptr && book_[kWords].load(std::memory_order_relaxed) != 0;
  }

  // A changer: from enter() to leave() no helper looks at the ranges. Waits for a helper that is at
  // them or has asked before, and for a place in the list. Returns the place. REQUIRES: the thread
  // is in no other place.
  unsigned enter(Range range, Range other = {});
  void leave(unsigned place);
  // Whether the process forks while this changer is in, so that a child may still have to read what
  // lies in the arenas.
  [[nodiscard]] bool forks(unsigned place) const {
    return !changers_[place].empties.load(std::memory_order_relaxed);
  }
  // Whether any of it was described. REQUIRES: entered, or nothing is announced.
  [[nodiscard]] bool described(std::uint64_t start, std::uint64_t end) const;
  // The range is unmapped: whole chunks of it were never described. REQUIRES: entered.
  void forget(std::uint64_t start, std::uint64_t end);

  // A helper, one at a time: from claim() to unclaim() nobody changes the range. Waits for those
  // who do, holding nothing that a changer could wait for.
  void claim(std::uint64_t start, std::uint64_t end);
  void unclaim();
  // Marks a range that is described already.
  void mark(std::uint64_t start, std::uint64_t end);

  // Around a fork: changers that are in have left when this returns, or know of the fork.
  void start_fork();
  void end_fork() { forking_.store(false, std::memory_order_seq_cst); }
  // In the child.
  void reset();

 private:
  static constexpr unsigned kBits = 64;
  static constexpr std::uint64_t kWords = kAddressEnd / kChunk / kBits;

  // Sequentially consistent: the changer's store to his ranges, then his look at the claim and the
  // book; the helper's store to the claim, then its look at the ranges, then its store to the book.
  // Of a range that is being stored the end is empty, or comes last.
  struct SharedRange {
    std::atomic<std::uint64_t> start{0};
    std::atomic<std::uint64_t> end{0};

    void store(Range range);
    void clear() { end.store(0, std::memory_order_seq_cst); }
    [[nodiscard]] bool overlaps(Range range) const;
  };
  struct Changer {
    std::atomic<bool> taken{false};
    SharedRange ranges[2];
    // He may empty places in arenas. Sequentially consistent: his store, then his look whether the
    // process forks; the forking thread's other way round.
    std::atomic<bool> empties{false};
  };

  [[nodiscard]] bool is_changed(Range range) const;

  // A bit for each chunk of the address space; then a word, whether changes are announced. All of
  // it is zero in a child, however it was made: what a child that libc's fork() doesn't know of
  // does to the memory that it shares with its parent is between it and the kernel.
  std::atomic<std::uint64_t>* book_ = nullptr;
  Changer changers_[kChangersMax];
  std::atomic<bool> forking_{false};
  EventCount departures_;  // of changers
  SharedRange claim_;
  EventCount unclaims_;
};

}  // namespace uroce::shim
