#pragma once

// Memory that will soon be looked at, brought towards the processor. Without effect but on time.
//
// GCC leaves out calls of functions that do nothing but __builtin_prefetch, as if they were without
// any effect (12.2 does). So what prefetches ends with an empty statement that it can't leave out.

#include <cstddef>
#include <cstdint>

#include "base/cache_line.h"

namespace uroce {

namespace detail {

template <int kLocality>
inline void prefetch_line(const void* address) {
  __builtin_prefetch(address, 0, kLocality);
  asm volatile("");
}

constexpr int kToFirstCache = 3, kToSecondCache = 2;

// `start` is a number, since what isn't mapped is no array that a pointer may walk through.
template <int kLocality>
inline void prefetch_lines(std::uintptr_t start, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += kCacheLine) {
    prefetch_line<kLocality>(reinterpret_cast<const void*>(start + at));
  }
}

}  // namespace detail

// The line that `address` lies in. Nothing need be mapped there.
inline void prefetch_line(const void* address) {
  detail::prefetch_line<detail::kToFirstCache>(address);
}
// The same, and the line is taken from other processors' caches, so that a store needn't wait for
// that. On x86-64 by name, since compilers use the instruction only where it is part of the target:
// x86-64-v2 hasn't got it, but all its processors decode it, and those since 2014 (all of AMD's)
// obey it.
inline void prefetch_line_to_write(const void* address) {
#if defined(__x86_64__)
  asm volatile("prefetchw (%0)" : : "r"(address));
#else
  asm volatile("prfm pstl1keep, [%0]" : : "r"(address));
#endif
}

// The lines that [start, start + bytes) lies in, save perhaps the last one if it doesn't begin with
// one. Nothing need be mapped there.
inline void prefetch_lines(const void* start, std::size_t bytes) {
  detail::prefetch_lines<detail::kToFirstCache>(reinterpret_cast<std::uintptr_t>(start), bytes);
}

inline void prefetch_lines_to_write(void* start, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += kCacheLine) {
    prefetch_line_to_write(static_cast<char*>(start) + at);
  }
}

// The same for much that is needed only after other work, which has the first cache meanwhile.
inline void prefetch_lines_to_second_cache(std::uintptr_t start, std::size_t bytes) {
  detail::prefetch_lines<detail::kToSecondCache>(start, bytes);
}

}  // namespace uroce
