#pragma once

// RLIMIT_FSIZE: the kernel ends a program by SIGXFSZ that makes, or writes, a larger file than it
// allows, memfds included. Hence a look at it first.

#include <sys/resource.h>

#include <cstdint>

namespace uroce::shim {

inline bool may_have_file_of(std::uint64_t bytes) {
  rlimit limit = {};
  return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= bytes;
}

}  // namespace uroce::shim
