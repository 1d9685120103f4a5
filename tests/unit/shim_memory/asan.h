#pragma once

// Whether AddressSanitizer's malloc replaces the C library's; the two compilers differ in how to
// ask for it at compile time.

#include <dlfcn.h>

namespace uroce::test {

inline bool has_asan_malloc() { return ::dlsym(RTLD_DEFAULT, "__asan_init") != nullptr; }

}  // namespace uroce::test
