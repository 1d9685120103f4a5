#pragma once

// Where the memory of a program lies that doesn't exist, and in what pages.

#include <cstdint>

#include "mmu/mirror/mirror.h"

namespace uroce::test {

inline constexpr std::uint64_t kBase = 0x7000'0000'0000;
inline constexpr std::uint64_t kPage = Mirror::kPage;

}  // namespace uroce::test
