#pragma once

// userfaultfd, as far as converting needs it: to hold every thread that would write to a range, or
// touch a page of it that doesn't exist yet, while the range's pages are copied. Plain functions on
// descriptors, because the thread that calls them may touch neither heap nor anybody's data.

#include <cstdint>

#include "base/unique_fd.h"

namespace uroce::shim {

struct UserFault {
  UniqueFd descriptor;  // not valid: the kernel refuses any
  // System calls of other threads that write to the range meanwhile fail with EFAULT instead of
  // waiting: all that an unprivileged program may have, unless /dev/userfaultfd is open to it.
  bool user_mode_only = false;
};

UserFault open_user_fault();

// 0, or an errno value.
int hold_writers(int user_fault, std::uint64_t start, std::uint64_t length);
// After the range was mapped anew: those who wait look again.
void wake_waiters(int user_fault, std::uint64_t start, std::uint64_t length);
// Undoes hold_writers.
void release_writers(int user_fault, std::uint64_t start, std::uint64_t length);

}  // namespace uroce::shim
