#pragma once

// A CRC-32 kernel of wide vectors: accumulators of several times 16 bytes, 256 bytes of the message
// at a time. For what is shorter than Wide::kLengthMin the 16-byte kernel is as good.
//
// Included by one file for each width, after it has defined
//
//   UROCE_WIDE        the attributes of functions that may use its instructions, always inlined
//   UROCE_WIDE_ENTRY  the same for those that are called by pointer
//   Wide              in namespace uroce::crc32_wide: the vector, and what is done with it
//
// The attributes can't be parameters of a template: gcc inlines no function that was compiled for a
// better processor into one for a lesser.

#include "dataplane/wire/crc/crc32.h"
#include "dataplane/wire/crc/crc32_fold.h"

namespace uroce {
namespace {

using namespace crc32_fold;
using crc32_wide::Wide;
using Vector = Wide::Vector;

constexpr std::size_t kStride = 256;
constexpr std::size_t kAccumulators = kStride / Wide::kBytes;
static_assert(Wide::kLengthMin >= kStride);
constexpr Keys kByStride = keys_for(8 * kStride);
constexpr Keys kByVector = keys_for(8 * Wide::kBytes);

// One vector of an Input (wire/crc/crc32_fold.h).
template <bool kStart, bool kCopy, bool kMasked>
UROCE_WIDE Vector next_wide(Input<kCopy, kMasked>& input) {
  Vector block = Wide::load(input.source);
  if constexpr (kCopy) {
    Wide::store(input.destination, block);
    input.destination += Wide::kBytes;
    input.previous = Wide::part<Wide::kParts - 1>(block);
  }
  if constexpr (kMasked && kStart) {
    block = Wide::either(block, Wide::load(input.mask));
    input.mask += Wide::kBytes;
  }
  input.source += Wide::kBytes;
  return block;
}

// A mask covers the first 64 bytes.
template <std::size_t kIndex, bool kCopy, bool kMasked>
UROCE_WIDE Vector first_wide(Input<kCopy, kMasked>& input) {
  constexpr bool kStart = kIndex * Wide::kBytes < sizeof(CrcMask);
  return next_wide<kStart>(input);
}

// REQUIRES: length >= kStride.
template <bool kCopy, bool kMasked>
UROCE_WIDE std::uint32_t sum(std::uint32_t state, Input<kCopy, kMasked>& input,
                             std::size_t length) {
  Vector x[kAccumulators];
  x[0] = Wide::differ(first_wide<0>(input), Wide::of(state));
  x[1] = first_wide<1>(input);
#pragma GCC unroll 8
  for (std::size_t i = 2; i < kAccumulators; ++i) {
    x[i] = next_wide<false>(input);
  }
  length -= kStride;
  const Vector by_stride = Wide::of(kByStride);
  for (; length >= kStride; length -= kStride) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kAccumulators; ++i) {
      if constexpr (kCopy) {
        if (i % (kCacheLine / Wide::kBytes) == 0) {
          input.prefetch();
        }
      }
      x[i] = Wide::fold(x[i], by_stride, next_wide<false>(input));
    }
  }
  const Vector by_vector = Wide::of(kByVector);
  Vector last = x[0];
#pragma GCC unroll 8
  for (std::size_t i = 1; i < kAccumulators; ++i) {
    last = Wide::fold(last, by_vector, x[i]);
  }
  for (; length >= Wide::kBytes; length -= Wide::kBytes) {
    last = Wide::fold(last, by_vector, next_wide<false>(input));
  }
  return reduce(fold_rest<false>(Wide::join(last), input, length));
}

UROCE_WIDE_ENTRY std::uint32_t update(std::uint32_t state, const std::byte* bytes,
                                      std::size_t length) {
  if (length < Wide::kLengthMin) {
    return kCrc32Pclmul.update(state, bytes, length);
  }
  Input<false, false> input{bytes, nullptr, nullptr, {}, 0};
  return sum(state, input, length);
}

UROCE_WIDE_ENTRY std::uint32_t copy(std::uint32_t state, std::byte* destination,
                                    const std::byte* source, std::size_t length,
                                    std::size_t ahead) {
  if (length < Wide::kLengthMin) {
    return kCrc32Pclmul.copy(state, destination, source, length, ahead);
  }
  Input<true, false> input{source, destination, nullptr, {}, ahead};
  return sum(state, input, length);
}

UROCE_WIDE_ENTRY std::uint32_t update_masked(std::uint32_t state, const std::byte* bytes,
                                             std::size_t length, const CrcMask& mask) {
  if (length < Wide::kLengthMin) {
    return kCrc32Pclmul.update_masked(state, bytes, length, mask);
  }
  Input<false, true> input{bytes, nullptr, mask.data(), {}, 0};
  return sum(state, input, length);
}

std::uint32_t multiply(std::uint32_t a, std::uint32_t b) { return kCrc32Pclmul.multiply(a, b); }

constexpr Crc32Kernel kWideKernel{.name = Wide::kName,
                                  .update = update,
                                  .copy = copy,
                                  .update_masked = update_masked,
                                  .multiply = multiply};

}  // namespace
}  // namespace uroce
