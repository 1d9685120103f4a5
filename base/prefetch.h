#pragma once

// Memory that will soon be looked at, brought towards the processor. Without effect but on time.

#include <cstddef>
#include <cstdint>

namespace uroce {

inline constexpr std::size_t kCacheLine = 64;  // bytes

namespace detail {

// `start` is a number, since what isn't mapped is no array that a pointer may walk through.
template <int kLocality>
inline void prefetch_lines(std::uintptr_t start, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += kCacheLine) {
    __builtin_prefetch(reinterpret_cast<const void*>(start + at), 0, kLocality);
  }
}

}  // namespace detail

// The lines that [start, start + bytes) lies in, save perhaps the last one if it doesn't begin with
// one. Nothing need be mapped there.
inline void prefetch_lines(const void* start, std::size_t bytes) {
  constexpr int kToFirstCache = 3;
  detail::prefetch_lines<kToFirstCache>(reinterpret_cast<std::uintptr_t>(start), bytes);
}

// The same for much that is needed only after other work, which has the first cache meanwhile.
inline void prefetch_lines_to_second_cache(std::uintptr_t start, std::size_t bytes) {
  constexpr int kToSecondCache = 2;
  detail::prefetch_lines<kToSecondCache>(start, bytes);
}

}  // namespace uroce
