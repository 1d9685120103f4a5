#pragma once

// Who is changing which addresses just now, and which addresses anybody was told about.
//
// The program's threads change mappings (memory_calls.cc) while helper threads of ours look at them
// and convert them (paging_helper.cc). Two rules keep them apart:
//   a changer enters its range in a list before it looks whether the range was ever described;
//   a helper claims its range before it looks at that list, and marks it as described before it
//   looks what lies there.
// So one of the two sees the other. Changers that came first finish; those that come after a helper
// has claimed a range wait for it. (If helpers gave way, a program that changes mappings in a loop
// would never let them in, and its peers' requests would time out.) A thread that has entered a
// range already and enters another must not wait for a helper that waits for it: it goes first.
// Nothing here allocates, and only the kernel's futex is waited on.

#include <atomic>
#include <cstdint>

#include "verbs_shim/memory/wake_word.h"

namespace uroce::shim {

class AddressWatch {
 public:
  static constexpr std::uint64_t kChunk = 2ULL << 20U;
  static constexpr std::uint64_t kAddressEnd = 1ULL << 47U;
  static constexpr unsigned kChangersMax = 64;  // half of them nested ones

  // Before anything else. False: no memory for the book.
  bool open();

  // A changer: from enter() to leave() no helper looks at the range. Waits for a helper that is at
  // it or has asked before, and for a place in the list. Returns the place. `nested`: the thread
  // has entered another range, and hasn't left it.
  unsigned enter(std::uint64_t start, std::uint64_t end, bool nested = false);
  void leave(unsigned place);
  // Whether any of it was described. REQUIRES: entered.
  [[nodiscard]] bool described(std::uint64_t start, std::uint64_t end) const;
  // The range is unmapped: whole chunks of it were never described. REQUIRES: entered.
  void forget(std::uint64_t start, std::uint64_t end);

  // A helper, one at a time: from claim() to unclaim() nobody changes the range. Waits for those
  // who do, holding nothing that a changer could wait for.
  void claim(std::uint64_t start, std::uint64_t end);
  void unclaim();
  // Marks a range that is described already.
  void mark(std::uint64_t start, std::uint64_t end);

  // In a fork's child.
  void reset();

 private:
  struct Changer {
    std::atomic<bool> taken{false};
    // Sequentially consistent: the changer's store to `end`, then its look at the claim and the
    // book; the helper's store to the claim, then its look at `end`, then its store to the book.
    std::atomic<std::uint64_t> start{0};
    std::atomic<std::uint64_t> end{0};  // 0: nobody
  };

  [[nodiscard]] bool claim_overlaps(std::uint64_t start, std::uint64_t end) const;
  [[nodiscard]] bool is_changed(std::uint64_t start, std::uint64_t end) const;

  std::atomic<std::uint64_t>* book_ = nullptr;  // a bit for each chunk of the address space
  Changer changers_[kChangersMax];
  WakeWord departures_;                        // of changers
  std::atomic<std::uint64_t> claim_start_{0};  // as Changer::start, end
  std::atomic<std::uint64_t> claim_end_{0};
  // The claim holds: set before the helper's last look at the list, which no nested changer's entry
  // escapes. Until then nested changers may still enter.
  std::atomic<bool> claim_holds_{false};
  WakeWord unclaims_;  // of claims, and of holds
};

}  // namespace uroce::shim
