#pragma once

// The addresses and page size of the memory of a program that doesn't exist.

#include <cstdint>

#include "mmu/mirror/mirror.h"

namespace uroce::test {

inline constexpr std::uint64_t kBase = 0x7000'0000'0000;
inline constexpr std::uint64_t kPage = Mirror::kPage;

}  // namespace uroce::test
