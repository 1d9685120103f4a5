#pragma once

// Who a program counts for where programs share something.

#include <sys/types.h>

#include <cstdint>

namespace uroce {

struct User {
  uid_t uid = 0;                     // as the daemon's user namespace has it
  std::uint64_t user_namespace = 0;  // its inode; 0: the daemon's own, or unknown
  auto operator<=>(const User&) const = default;
};

}  // namespace uroce
