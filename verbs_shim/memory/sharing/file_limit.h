#pragma once

// RLIMIT_FSIZE: the kernel ends a program by SIGXFSZ if it creates or writes a larger file, memfds
// included. So the limit is checked first.

#include <sys/resource.h>

#include <cstdint>

namespace uroce::shim {

inline bool file_size_allowed(std::uint64_t bytes) {
  rlimit limit = {};
  return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= bytes;
}

}  // namespace uroce::shim
