// CRC-32 by PCLMULQDQ: four accumulators of 16 bytes (wire/crc/crc32_fold.h).

#include "dataplane/wire/crc/crc32.h"
#include "dataplane/wire/crc/crc32_fold.h"

#define UROCE_PCLMUL_ENTRY [[gnu::target("pclmul,sse4.1")]]

namespace uroce {
namespace {

using namespace crc32_fold;

// REQUIRES: length >= 16.
template <typename Source>
UROCE_PCLMUL std::uint32_t sum(std::uint32_t state, Source& input, std::size_t length) {
  if (length < 4 * kBlock) {
    return sum_short(state, input, length);
  }
  __m128i x0 =
      _mm_xor_si128(input.template next<true>(), _mm_cvtsi32_si128(static_cast<int>(state)));
  __m128i x1 = input.template next<true>();
  __m128i x2 = input.template next<true>();
  __m128i x3 = input.template next<true>();
  length -= 4 * kBlock;
  const __m128i by512 = load(&kBy512);
  for (; length >= 4 * kBlock; length -= 4 * kBlock) {
    input.prefetch();
    x0 = fold(x0, by512, input.template next<false>());
    x1 = fold(x1, by512, input.template next<false>());
    x2 = fold(x2, by512, input.template next<false>());
    x3 = fold(x3, by512, input.template next<false>());
  }
  return reduce(fold_rest<false>(join(x0, x1, x2, x3), input, length));
}

UROCE_PCLMUL_ENTRY std::uint32_t update(std::uint32_t state, const std::byte* bytes,
                                        std::size_t length) {
  if (length < kBlock) {
    return kCrc32Portable.update(state, bytes, length);
  }
  Input<false, false> input{bytes, nullptr, nullptr, {}, 0};
  return sum(state, input, length);
}

UROCE_PCLMUL_ENTRY std::uint32_t copy(std::uint32_t state, std::byte* destination,
                                      const std::byte* source, std::size_t length,
                                      std::size_t ahead) {
  if (length < kBlock) {
    return kCrc32Portable.copy(state, destination, source, length, ahead);
  }
  Input<true, false> input{source, destination, nullptr, {}, ahead};
  return sum(state, input, length);
}

UROCE_PCLMUL_ENTRY std::uint32_t update_masked(std::uint32_t state, const std::byte* bytes,
                                               std::size_t length, const CrcMask& mask) {
  Input<false, true> input{bytes, nullptr, mask.data(), {}, 0};
  return sum(state, input, length);
}

// The first 32 bits alone.
UROCE_PCLMUL __m128i low_half(__m128i value) {
  return _mm_cvtsi64_si128(static_cast<std::uint32_t>(_mm_cvtsi128_si32(value)));
}

UROCE_PCLMUL_ENTRY std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  // 63 bits, one down; as 64 their lower half is x^32 and up, which Barrett's reduction takes away.
  const __m128i product =
      _mm_slli_epi64(_mm_clmulepi64_si128(_mm_cvtsi64_si128(a), _mm_cvtsi64_si128(b), 0x00), 1);
  const __m128i barrett = load(&kBarrett);
  const __m128i upper = _mm_clmulepi64_si128(low_half(product), barrett, 0x00);
  const __m128i multiple = _mm_clmulepi64_si128(low_half(upper), barrett, 0x10);
  return static_cast<std::uint32_t>(_mm_extract_epi32(_mm_xor_si128(product, multiple), 1));
}

}  // namespace

const Crc32Kernel kCrc32Pclmul{.name = "pclmul",
                               .update = update,
                               .copy = copy,
                               .update_masked = update_masked,
                               .multiply = multiply};

}  // namespace uroce
