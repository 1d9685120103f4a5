#pragma once

// Pages and addresses of a program's memory.

#include <cstddef>
#include <cstdint>

namespace uroce {

// The page by which the kernel maps memory. Files may have larger ones. On amd64 there is no other;
// a kernel for arm64 may have been built for one of 16 or 64 KiB, on which uroce refuses to run
// (base/page_size.h).
inline constexpr std::size_t kPage = 4'096;

// The bits of an address of a program's. Only programs that ask the kernel for it get higher ones.
#if defined(__x86_64__)
inline constexpr unsigned kAddressBits = 47;
#else
inline constexpr unsigned kAddressBits = 48;
#endif
inline constexpr std::uint64_t kAddressEnd = 1ULL << kAddressBits;

// The largest multiple of `unit` that is at most `value`.
constexpr std::uint64_t align_floor(std::uint64_t value, std::uint64_t unit) {
  return value / unit * unit;
}
// The smallest multiple of `unit` that is at least `value`; if that is 2^64 or more, 0 where `unit`
// is a power of two.
constexpr std::uint64_t align_ceil(std::uint64_t value, std::uint64_t unit) {
  return align_floor(value + unit - 1, unit);
}

constexpr std::uint64_t page_floor(std::uint64_t address) { return align_floor(address, kPage); }
constexpr std::uint64_t page_ceil(std::uint64_t address_or_length) {
  return align_ceil(address_or_length, kPage);
}

// Bytes of the whole pages that a range touches.
constexpr std::uint64_t bytes_of_pages(std::uint64_t address, std::uint64_t length) {
  return page_ceil(address + length) - page_floor(address);
}

}  // namespace uroce
