#pragma once

// Tracks which addresses are being changed at the moment, and which were ever described to a daemon
// or converted.
//
// The program's threads change mappings (memory_calls.cc; here "changers") while our helper threads
// read and convert them (paging_helper.cc). Two rules synchronise them:
//
//   a changer enters its range in a list before it checks whether the range was ever described;
//   a helper claims its range before it reads that list, and marks the range as described before
//   it looks at the mappings.
//
// So at least one of the two sees the other. Changers that entered first finish; later ones wait
// until the helper has released its claim. (If helpers gave way, a program that changes mappings in
// a loop would starve them, and its peers' requests would time out.) A changer of two ranges enters
// both at once: holding only one, it could deadlock with a helper. Nothing here allocates, and the
// only blocking is on futexes.
//
// tests/unit/shim/address_watch_model.h checks all interleavings of the steps below in a small
// state machine: a changer and a helper never work on the same memory, every change of described
// memory is announced, helpers don't starve, a fork's child finds its pages, and nothing deadlocks.
// Any change of a step here must be made there, too.
//
// A process without on-demand paging has no helpers. There a changer may check the table of
// described ranges before it enters: programs don't change memory while it is being registered, and
// memory registered before is marked.

#include <atomic>
#include <cstdint>

#include "base/page.h"
#include "verbs_shim/memory/sharing/event_count.h"

namespace uroce::shim {

class AddressWatch {
 public:
  static constexpr std::uint64_t kChunk = 2ULL << 20U;
  static constexpr std::uint64_t kAddressEnd = uroce::kAddressEnd;
  static constexpr unsigned kChangersMax = 64;

  struct Range {
    std::uint64_t start;
    std::uint64_t end;  // empty if not above start
  };

  // Call first. False: no memory for the bitmap.
  bool open();

  // From now on changes are announced. REQUIRES: open().
  void start_announcing();
  // Relaxed: the first on-demand region is created after it was set, so earlier calls can't concern
  // that region.
  [[nodiscard]] bool announcing() const {
    return bitmap_ != nullptr && bitmap_[kWords].load(std::memory_order_relaxed) != 0;
  }

  // For changers: between enter() and leave() no helper accesses the ranges. Waits for a helper
  // that has claimed them before, and for a place in the list. Returns the place. REQUIRES: the
  // thread holds no other place.
  unsigned enter(Range range, Range other = {});
  void leave(unsigned place);
  // Whether the process forks while this changer is entered, so that a child may still have to read
  // the arenas.
  [[nodiscard]] bool forks(unsigned place) const {
    return !changers_[place].empties.load(std::memory_order_relaxed);
  }
  // Whether any of it was described. REQUIRES: entered, or nothing is announced.
  [[nodiscard]] bool described(std::uint64_t start, std::uint64_t end) const;
  // The range is unmapped: unmarks the whole chunks in it. REQUIRES: entered.
  void forget(std::uint64_t start, std::uint64_t end);

  // For helpers, one at a time: between claim() and unclaim() no changer changes the range. Waits
  // for current changers without holding anything that they could wait for.
  void claim(std::uint64_t start, std::uint64_t end);
  void unclaim();
  // Marks a range that is described already.
  void mark(std::uint64_t start, std::uint64_t end);

  // Call around a fork: when start_fork() returns, entered changers have left, or know of the fork.
  void start_fork();
  void end_fork() { forking_.store(false, std::memory_order_seq_cst); }
  // For the child: nothing is described or announced any more.
  void reset();

  // Whether the range contains part of the table of described addresses. That must stay private
  // memory: otherwise a child of a bare fork would announce its changes on its parent's sockets.
  [[nodiscard]] bool keeps_table_in(Range range) const;

 private:
  static constexpr unsigned kBits = 64;
  static constexpr std::uint64_t kWords = kAddressEnd / kChunk / kBits;
  static constexpr std::uint64_t kTableBytes = kWords * sizeof(std::uint64_t) + kPage;

  // Sequentially consistent: the changer stores its ranges, then reads the claim and the bitmap;
  // the helper stores the claim, then reads the ranges, then stores to the bitmap. While a range is
  // being stored its end is 0; the end is stored last.
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
    // The changer may empty places in arenas. Sequentially consistent: the changer stores this,
    // then reads whether the process forks; the forking thread does the reverse.
    std::atomic<bool> empties{false};
  };

  [[nodiscard]] bool is_changed(Range range) const;

  // A bit for each chunk of the address space, followed by a word: whether changes are announced.
  // All of it is zero in a child process, however it was created; so changes in a child that wasn't
  // created by libc's fork() aren't intercepted.
  std::atomic<std::uint64_t>* bitmap_ = nullptr;
  Changer changers_[kChangersMax];
  std::atomic<bool> forking_{false};
  EventCount departures_;  // signalled when changers leave
  SharedRange claim_;
  EventCount unclaims_;
};

}  // namespace uroce::shim
