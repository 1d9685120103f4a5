#pragma once

// Assertions for mistakes of our own. They stay on in release builds: a wrong answer on the wire is
// worse than a daemon that stops with a file and a line. What a peer, a program or the machine can
// cause is never asserted.

#include <cstdio>
#include <cstdlib>

#include "base/journal.h"

namespace uroce {

[[noreturn]] inline void check_failed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%suroce: internal error at %s:%d: %s\n", line_prefix(kCriticalLine), file,
               line, condition);
  std::abort();
}

}  // namespace uroce

#define UROCE_CHECK(condition)                               \
  do {                                                       \
    if (!(condition)) [[unlikely]] {                         \
      ::uroce::check_failed(__FILE__, __LINE__, #condition); \
    }                                                        \
  } while (false)
