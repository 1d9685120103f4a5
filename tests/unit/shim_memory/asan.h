#pragma once

// Whether AddressSanitizer's malloc stands in for the C library's; both compilers' ways to ask
// while compiling differ.

#include <dlfcn.h>

namespace uroce::test {

inline bool has_asan_malloc() { return ::dlsym(RTLD_DEFAULT, "__asan_init") != nullptr; }

}  // namespace uroce::test
