#pragma once

// The page of x86-64, by which the kernel maps memory. Files may have larger ones.

#include <cstddef>

namespace uroce {

inline constexpr std::size_t kPage = 4'096;

}  // namespace uroce
