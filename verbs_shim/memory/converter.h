#pragma once

// Converts private pages into shared ones at the same addresses while other threads go on using
// them. docs/memory.md shows the steps.
//
// The work is done by a thread of its own: everything else in the process may at that moment be
// waiting for a page of the range, the heap included. That thread uses nothing but its stack and
// its orders, which lie in a mapping of their own.

#include <cstdint>

namespace uroce::shim {

// What to convert. REQUIRES: one mapping, private, without a file, whole pages of page_size.
struct Conversion {
  std::uint64_t start = 0;
  std::uint64_t length = 0;
  std::uint64_t page_size = 0;
  int protection = 0;        // PROT_*, kept
  int arena = -1;            // the memfd
  std::uint64_t offset = 0;  // the place in it
};

class Converter {
 public:
  Converter() = default;
  Converter(const Converter&) = delete;
  Converter& operator=(const Converter&) = delete;

  // 0, or an errno value and nothing has changed. EPERM where writers can't be held. One caller at
  // a time.
  int run(const Conversion& conversion);

  // In a fork's child, where the thread doesn't exist.
  void forget() { desk_ = nullptr; }

 private:
  struct Desk;
  static void* work(void* desk);
  bool start();
  Desk* desk_ = nullptr;  // never unmapped: the thread lives as long as the process
};

}  // namespace uroce::shim
