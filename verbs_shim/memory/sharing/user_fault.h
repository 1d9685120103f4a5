#pragma once

// The part of userfaultfd needed for conversion: blocks every thread that writes to a range, or
// accesses a missing page of it, while its pages are copied. Plain functions on descriptors,
// because the calling thread may access neither the heap nor the program's data.

#include <cstdint>

#include "base/unique_fd.h"

namespace uroce::shim {

struct UserFault {
  UniqueFd descriptor;  // invalid: the kernel refuses, or can't hold writers
  // System calls of other threads that write to the range meanwhile fail with EFAULT instead of
  // waiting. The only mode for unprivileged programs without access to /dev/userfaultfd.
  bool user_mode_only = false;
};

UserFault open_user_fault();

// 0, or an errno value.
int hold_writers(int user_fault, std::uint64_t start, std::uint64_t length);
// After the range was remapped: waiting threads retry their access.
void wake_waiters(int user_fault, std::uint64_t start, std::uint64_t length);
// Undoes hold_writers.
void release_writers(int user_fault, std::uint64_t start, std::uint64_t length);

}  // namespace uroce::shim
