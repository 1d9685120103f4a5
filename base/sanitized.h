#pragma once

// Whether a sanitizer watches: its run-time makes system calls and takes addresses of its own, and
// wants to see every access to memory. (gcc and clang say differently that it is there.)

namespace uroce {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
inline constexpr bool kSanitized =
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace uroce
