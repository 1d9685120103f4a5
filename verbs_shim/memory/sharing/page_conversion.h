#pragma once

// One conversion of private pages into shared ones, at the same addresses, while other threads go
// on using them. docs/memory.md shows the steps.
//
// Meanwhile any thread of the process may be blocked on a page of the range, also one that holds
// the heap's lock. So this runs in a thread of ours (isolated_thread.h), and its buffers lie in
// that thread's state.

#include <cstddef>
#include <cstdint>

#include "base/verified_descriptor.h"

namespace uroce::shim {

// What to convert. REQUIRES: one mapping, private, without a file, whole pages of page_size.
struct Conversion {
  std::uint64_t start = 0;
  std::uint64_t length = 0;
  std::uint64_t page_size = 0;
  int protection = 0;        // PROT_*, kept
  int arena = -1;            // the memfd
  std::uint64_t offset = 0;  // the place in it
  // The only thread of the program waits for us: nobody could write meanwhile.
  bool unwatched = false;
};

class PageConversion {
 public:
  // 0, or an errno value and nothing has changed. EPERM where writers can't be held. REQUIRES: the
  // caller's stack and this object lie outside of the range and of everything else that is
  // converted; one conversion at a time in the process.
  int run(const Conversion& conversion);
  // Gives back what it keeps for the next one; in a fork's child, what it was left.
  void end() { user_faults_.end(); }

 private:
  static constexpr std::size_t kBounceBytes = 128ULL << 10U;
  static constexpr std::size_t kEntries = 4096;  // of pagemap, read at once

  int convert();
  int copy_pages();
  int end_run(std::uint64_t end);
  int copy_run(std::uint64_t start, std::uint64_t length);

  // Kept open, because closing it has the kernel look at each mapping of the process.
  VerifiedDescriptor user_faults_;
  Conversion order_;
  int user_fault_ = -1;  // -1: nobody else could write
  int pagemap_ = -1;
  int memory_ = -1;
  std::byte* window_ = nullptr;  // of the place in the arena, where the file can't be written to
  std::uint64_t run_ = 0;        // pages that are there, just passed and not yet copied
  std::uint64_t entries_[kEntries];
  std::byte bounce_[kBounceBytes];
};

// Whether the program has one thread besides ours.
bool one_thread();

}  // namespace uroce::shim
