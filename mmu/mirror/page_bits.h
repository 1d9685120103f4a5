#pragma once

// One bit per page, in words of 64; plain or atomic.

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace uroce {

template <typename Bits>
bool is_set(const Bits& bits, std::size_t page) {
  return (bits[page / 64] >> (page % 64) & 1U) != 0;
}

template <typename Bits>
void set_all(Bits& bits, std::size_t first, std::size_t end) {
  for (std::size_t page = first; page < end; ++page) {
    bits[page / 64] |= std::uint64_t{1} << (page % 64);
  }
}

template <typename Bits>
void clear_all(Bits& bits, std::size_t first, std::size_t end) {
  for (std::size_t page = first; page < end; ++page) {
    bits[page / 64] &= ~(std::uint64_t{1} << (page % 64));
  }
}

// The bits of one word for pages [first, end).
inline std::uint64_t mask_of(std::size_t word, std::size_t first, std::size_t end) {
  const std::size_t low = std::max(first, word * 64);
  const std::size_t high = std::min(end, (word + 1) * 64);
  if (low >= high) {
    return 0;
  }
  const std::uint64_t ones =
      high - low == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << (high - low)) - 1;
  return ones << (low % 64);
}

}  // namespace uroce
