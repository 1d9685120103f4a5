#pragma once

// Converts private pages into shared ones at the same addresses while other threads use them. The
// steps are in docs/memory.md. A large range is converted slice by slice, because the pages of a
// slice exist twice for a moment, and their writers wait.
//
// Meanwhile any thread of the process may be blocked on a page of the range, including a holder of
// the heap's lock. So this runs in a separate thread (isolated_thread.h), with its buffers in that
// thread's state.

#include <cstddef>
#include <cstdint>

#include "base/verified_descriptor.h"

namespace uroce::shim {

// The range to convert. REQUIRES: one mapping, private, without a file, whole pages of page_size.
struct Conversion {
  std::uint64_t start = 0;
  std::uint64_t length = 0;
  std::uint64_t page_size = 0;
  int protection = 0;        // PROT_*, kept
  int arena = -1;            // the arena's memfd
  std::uint64_t offset = 0;  // the range's place in the arena
  // The program's only thread waits for us, so nothing can write meanwhile.
  bool unwatched = false;
};

class PageConversion {
 public:
  // Returns how many bytes from the range's start on are converted, whole pages of page_size; the
  // rest is unchanged. Less than all if writers can't be blocked, or there is no memory. REQUIRES:
  // the caller's stack and this object are outside the range and all other converted memory; one
  // conversion at a time in the process.
  std::uint64_t run(const Conversion& conversion);
  // Releases resources kept for the next conversion, or inherited by a fork's child.
  void end() { user_faults_.end(); }

 private:
  static constexpr std::size_t kBounceBytes = 128ULL << 10U;
  static constexpr std::size_t kEntries = 4096;  // pagemap entries per read

  bool convert_slice();
  bool convert_huge_slice();  // through a window
  int copy_pages();
  int end_run(std::uint64_t end);
  int copy_run(std::uint64_t start, std::uint64_t length);
  [[nodiscard]] bool is_there(std::uint64_t address) const;

  // Kept open, because on close the kernel visits every mapping of the process.
  VerifiedDescriptor user_faults_;
  Conversion slice_;
  int user_fault_ = -1;  // -1: no other thread could write
  int pagemap_ = -1;
  int memory_ = -1;
  std::byte* window_ =
      nullptr;             // maps the slice's place in the arena, if the file can't be written to
  std::uint64_t run_ = 0;  // number of present pages passed and not yet copied
  std::uint64_t entries_[kEntries];
  std::byte bounce_[kBounceBytes];
};

// Whether the program has only one thread besides ours.
bool one_thread();

}  // namespace uroce::shim
