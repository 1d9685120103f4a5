#pragma once

// The page of x86-64, by which the kernel maps memory. Files may have larger ones.

#include <cstddef>
#include <cstdint>

namespace uroce {

inline constexpr std::size_t kPage = 4'096;

// The first page that begins at an address or behind it, or a length in whole pages. 0 if that is
// beyond 2^64.
constexpr std::uint64_t up_to_page(std::uint64_t address_or_length) {
  return (address_or_length + kPage - 1) / kPage * kPage;
}

}  // namespace uroce
