// CRC-32 by VPCLMULQDQ: four accumulators of 64 bytes, each four accumulators of 16
// (wire/crc32_fold.h). For what is shorter than 256 bytes the 16-byte kernel is as good.

#include "dataplane/wire/crc32.h"
#include "dataplane/wire/crc32_fold.h"

#define UROCE_VPCLMUL \
  [[gnu::target("pclmul,sse4.1,vpclmulqdq,avx512f,avx512vl,avx512bw"), gnu::always_inline]] inline
#define UROCE_VPCLMUL_ENTRY [[gnu::target("pclmul,sse4.1,vpclmulqdq,avx512f,avx512vl,avx512bw")]]

namespace uroce {
namespace {

using namespace crc32_fold;

constexpr std::size_t kWide = 64;
constexpr std::size_t kWideMin = 4 * kWide;  // shorter sums are the other kernel's
constexpr Keys kBy2048 = keys_for(2048);

// The zeroing forms of broadcast and extract, with nothing zeroed: gcc 12 warns of an uninitialised
// variable inside the plain ones (and inside the cast to 128 bits).
UROCE_VPCLMUL __m512i four_times(const Keys& keys) {
  return _mm512_maskz_broadcast_i32x4(0xFFFF, load(&keys));
}
template <int kIndex>
UROCE_VPCLMUL __m128i quarter(__m512i wide) {
  return _mm512_maskz_extracti32x4_epi32(0xF, wide, kIndex);
}

UROCE_VPCLMUL __m512i fold_wide(__m512i accumulator, __m512i keys, __m512i next) {
  constexpr int kXorOfThree = 0x96;
  const __m512i low = _mm512_clmulepi64_epi128(accumulator, keys, 0x00);
  const __m512i high = _mm512_clmulepi64_epi128(accumulator, keys, 0x11);
  return _mm512_ternarylogic_epi64(low, high, next, kXorOfThree);
}

// 64 bytes of an Input (wire/crc32_fold.h).
template <bool kStart, bool kCopy, bool kMasked>
UROCE_VPCLMUL __m512i next_wide(Input<kCopy, kMasked>& input) {
  __m512i block = _mm512_loadu_si512(input.source);
  if constexpr (kCopy) {
    _mm512_storeu_si512(input.destination, block);
    input.destination += kWide;
    input.prefetch();
    input.previous = quarter<3>(block);
  }
  if constexpr (kMasked && kStart) {
    block = _mm512_or_si512(block, _mm512_loadu_si512(input.mask));
  }
  input.source += kWide;
  return block;
}

// REQUIRES: length >= kWideMin.
template <bool kCopy, bool kMasked>
UROCE_VPCLMUL std::uint32_t sum(std::uint32_t state, Input<kCopy, kMasked>& input,
                                std::size_t length) {
  const __m512i start = _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(state)));
  __m512i x0 = _mm512_xor_si512(next_wide<true>(input), start);
  __m512i x1 = next_wide<false>(input);
  __m512i x2 = next_wide<false>(input);
  __m512i x3 = next_wide<false>(input);
  length -= 4 * kWide;
  const __m512i by2048 = four_times(kBy2048);
  for (; length >= 4 * kWide; length -= 4 * kWide) {
    x0 = fold_wide(x0, by2048, next_wide<false>(input));
    x1 = fold_wide(x1, by2048, next_wide<false>(input));
    x2 = fold_wide(x2, by2048, next_wide<false>(input));
    x3 = fold_wide(x3, by2048, next_wide<false>(input));
  }
  const __m512i by512 = four_times(kBy512);
  x3 = fold_wide(fold_wide(fold_wide(x0, by512, x1), by512, x2), by512, x3);
  for (; length >= kWide; length -= kWide) {
    x3 = fold_wide(x3, by512, next_wide<false>(input));
  }
  const __m128i x = join(quarter<0>(x3), quarter<1>(x3), quarter<2>(x3), quarter<3>(x3));
  return reduce(fold_rest<false>(x, input, length));
}

UROCE_VPCLMUL_ENTRY std::uint32_t update(std::uint32_t state, const std::byte* bytes,
                                         std::size_t length) {
  if (length < kWideMin) {
    return kCrc32Pclmul.update(state, bytes, length);
  }
  Input<false, false> input{bytes, nullptr, nullptr, {}, 0};
  return sum(state, input, length);
}

UROCE_VPCLMUL_ENTRY std::uint32_t copy(std::uint32_t state, std::byte* destination,
                                       const std::byte* source, std::size_t length,
                                       std::size_t ahead) {
  if (length < kWideMin) {
    return kCrc32Pclmul.copy(state, destination, source, length, ahead);
  }
  Input<true, false> input{source, destination, nullptr, {}, ahead};
  return sum(state, input, length);
}

UROCE_VPCLMUL_ENTRY std::uint32_t update_masked(std::uint32_t state, const std::byte* bytes,
                                                std::size_t length, const CrcMask& mask) {
  if (length < kWideMin) {
    return kCrc32Pclmul.update_masked(state, bytes, length, mask);
  }
  Input<false, true> input{bytes, nullptr, mask.data(), {}, 0};
  return sum(state, input, length);
}

std::uint32_t multiply(std::uint32_t a, std::uint32_t b) { return kCrc32Pclmul.multiply(a, b); }

}  // namespace

const Crc32Kernel kCrc32Vpclmul{.name = "vpclmul",
                                .update = update,
                                .copy = copy,
                                .update_masked = update_masked,
                                .multiply = multiply};

}  // namespace uroce
