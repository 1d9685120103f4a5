// CRC-32 by arm64's CRC32 instructions, each of which sums 8 bytes. Its result comes after about
// three cycles, but another one can begin in each. So three parts of the bytes are summed side by
// side where the processor has PMULL, which joins their sums; elsewhere one word after the other.

#include <arm_acle.h>
#include <arm_neon.h>

#include <algorithm>
#include <cstring>

#include "base/cache_line.h"
#include "base/prefetch.h"
#include "dataplane/wire/crc/crc32.h"

#define UROCE_CRC32 [[gnu::target("+crc"), gnu::always_inline]] inline
#define UROCE_CRC32_ENTRY [[gnu::target("+crc")]]
#define UROCE_PMULL [[gnu::target("+crc+crypto"), gnu::always_inline]] inline
#define UROCE_PMULL_ENTRY [[gnu::target("+crc+crypto")]]

namespace uroce {
namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);
constexpr std::size_t kLane = 256;  // bytes of one of the three parts
constexpr std::size_t kStride = 3 * kLane;
static_assert(kLane % kCacheLine == 0);

// x to the power n modulo the polynomial; the highest bit is 1, the next one x.
constexpr std::uint32_t x_power(std::size_t n) {
  std::uint32_t power = 0x8000'0000;
  for (std::size_t i = 0; i < n; ++i) {
    power = (power >> 1U) ^ ((power & 1U) != 0 ? 0xEDB8'8320U : 0U);
  }
  return power;
}

// x to the power -n. What has x^0 came from a multiplication by x that took the polynomial away.
constexpr std::uint32_t x_inverse_power(std::size_t n) {
  std::uint32_t power = 0x8000'0000;
  for (std::size_t i = 0; i < n; ++i) {
    const bool one = (power & 0x8000'0000U) != 0;
    power = ((power ^ (one ? 0xEDB8'8320U : 0U)) << 1U) | (one ? 1U : 0U);
  }
  return power;
}

// The word at an offset, copied if that is wanted. What is summed is what was copied, even if the
// source changes meanwhile: behind the asm the compiler can't load it again.
template <bool kCopy, typename Word>
UROCE_CRC32 Word take(std::byte* destination, const std::byte* source, std::size_t offset) {
  Word word = 0;
  std::memcpy(&word, source + offset, sizeof(word));
  if constexpr (kCopy) {
    asm("" : "+r"(word));
    std::memcpy(destination + offset, &word, sizeof(word));
  }
  return word;
}

// In order, 8 bytes at a time.
template <bool kCopy>
UROCE_CRC32 std::uint32_t sum(std::uint32_t state, std::byte* destination, const std::byte* source,
                              std::size_t length, std::size_t ahead) {
  std::size_t at = 0;
  for (; length - at >= kWord; at += kWord) {
    if (kCopy && at % kCacheLine == 0) {
      prefetch_line(source + at + ahead);
    }
    state = __crc32d(state, take<kCopy, std::uint64_t>(destination, source, at));
  }
  if (length - at >= sizeof(std::uint32_t)) {
    state = __crc32w(state, take<kCopy, std::uint32_t>(destination, source, at));
    at += sizeof(std::uint32_t);
  }
  for (; at < length; ++at) {
    state = __crc32b(state, take<kCopy, std::uint8_t>(destination, source, at));
  }
  return state;
}

UROCE_CRC32_ENTRY std::uint32_t update(std::uint32_t state, const std::byte* bytes,
                                       std::size_t length) {
  return sum<false>(state, nullptr, bytes, length, 0);
}

UROCE_CRC32_ENTRY std::uint32_t copy(std::uint32_t state, std::byte* destination,
                                     const std::byte* source, std::size_t length,
                                     std::size_t ahead) {
  return sum<true>(state, destination, source, length, ahead);
}

// The start of what is summed, with the mask's bits; returns how many bytes that is.
std::size_t or_with_mask(CrcMask& masked, const std::byte* bytes, std::size_t length) {
  const std::size_t head = std::min(length, masked.size());
  for (std::size_t i = 0; i < head; ++i) {
    masked[i] |= bytes[i];
  }
  return head;
}

UROCE_CRC32_ENTRY std::uint32_t update_masked(std::uint32_t state, const std::byte* bytes,
                                              std::size_t length, const CrcMask& mask) {
  CrcMask masked = mask;
  const std::size_t head = or_with_mask(masked, bytes, length);
  state = sum<false>(state, nullptr, masked.data(), head, 0);
  return sum<false>(state, nullptr, bytes + head, length - head, 0);
}

std::uint32_t multiply(std::uint32_t a, std::uint32_t b) { return kCrc32Portable.multiply(a, b); }

// a b x^32 modulo the polynomial. The product has 63 bits, one down; of 8 bytes that hold it the
// sum is the remainder after x^32 more.
UROCE_PMULL std::uint32_t multiply_by_x32(std::uint32_t a, std::uint32_t b) {
  const poly128_t product = vmull_p64(a, b);
  return __crc32d(0, static_cast<std::uint64_t>(product) << 1U);
}

// Three parts side by side. The first two sums are then moved to where the third one ends.
// REQUIRES: length >= kStride.
template <bool kCopy>
UROCE_PMULL std::uint32_t sum_three(std::uint32_t state, std::byte* destination,
                                    const std::byte* source, std::size_t ahead) {
  constexpr std::uint32_t kByTwoLanes = x_power(8 * 2 * kLane - 32);
  constexpr std::uint32_t kByLane = x_power(8 * kLane - 32);
  std::uint32_t second = 0;
  std::uint32_t third = 0;
  for (std::size_t at = 0; at < kLane; at += kWord) {
    if (kCopy && at % kCacheLine == 0) {
      prefetch_line(source + at + ahead);
      prefetch_line(source + at + kLane + ahead);
      prefetch_line(source + at + 2 * kLane + ahead);
    }
    const std::size_t at2 = at + kLane;
    const std::size_t at3 = at + 2 * kLane;
    state = __crc32d(state, take<kCopy, std::uint64_t>(destination, source, at));
    second = __crc32d(second, take<kCopy, std::uint64_t>(destination, source, at2));
    third = __crc32d(third, take<kCopy, std::uint64_t>(destination, source, at3));
  }
  return multiply_by_x32(state, kByTwoLanes) ^ multiply_by_x32(second, kByLane) ^ third;
}

template <bool kCopy>
UROCE_PMULL std::uint32_t sum_interleaved(std::uint32_t state, std::byte* destination,
                                          const std::byte* source, std::size_t length,
                                          std::size_t ahead) {
  for (; length >= kStride; length -= kStride) {
    state = sum_three<kCopy>(state, destination, source, ahead);
    source += kStride;
    destination += kCopy ? kStride : 0;
  }
  return sum<kCopy>(state, destination, source, length, ahead);
}

UROCE_PMULL_ENTRY std::uint32_t update_interleaved(std::uint32_t state, const std::byte* bytes,
                                                   std::size_t length) {
  return sum_interleaved<false>(state, nullptr, bytes, length, 0);
}

UROCE_PMULL_ENTRY std::uint32_t copy_interleaved(std::uint32_t state, std::byte* destination,
                                                 const std::byte* source, std::size_t length,
                                                 std::size_t ahead) {
  return sum_interleaved<true>(state, destination, source, length, ahead);
}

UROCE_PMULL_ENTRY std::uint32_t update_masked_interleaved(std::uint32_t state,
                                                          const std::byte* bytes,
                                                          std::size_t length, const CrcMask& mask) {
  CrcMask masked = mask;
  const std::size_t head = or_with_mask(masked, bytes, length);
  state = sum<false>(state, nullptr, masked.data(), head, 0);
  return sum_interleaved<false>(state, nullptr, bytes + head, length - head, 0);
}

// Each multiplication adds a factor of x^32, so the second one's takes both away.
UROCE_PMULL_ENTRY std::uint32_t multiply_by_pmull(std::uint32_t a, std::uint32_t b) {
  constexpr std::uint32_t kBack = x_inverse_power(64);
  return multiply_by_x32(multiply_by_x32(a, b), kBack);
}

}  // namespace

const Crc32Kernel kCrc32Arm{.name = "arm",
                            .update = update,
                            .copy = copy,
                            .update_masked = update_masked,
                            .multiply = multiply};

const Crc32Kernel kCrc32ArmInterleaved{.name = "arm_interleaved",
                                       .update = update_interleaved,
                                       .copy = copy_interleaved,
                                       .update_masked = update_masked_interleaved,
                                       .multiply = multiply_by_pmull};

}  // namespace uroce
