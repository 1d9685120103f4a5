#pragma once

// A memory key: the index of a region or window, and in the lowest bits a tag that changes each
// time the index is used, so that an old key fails.

#include <cstdint>

namespace uroce {

inline constexpr std::uint32_t kKeyTagBits = 8;

constexpr std::uint32_t key_index(std::uint32_t key) { return key >> kKeyTagBits; }

}  // namespace uroce
