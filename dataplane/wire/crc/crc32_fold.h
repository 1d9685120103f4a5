#pragma once

// What the CRC-32 kernels by carry-less multiplication share, after Intel's "Fast CRC Computation
// for Generic Polynomials Using PCLMULQDQ" (2009): the message is a polynomial, and 16 bytes of it
// may be replaced by anything congruent to them modulo the CRC's polynomial P. So an accumulator of
// 16 bytes is multiplied by x^n (mod P) and added to the 16 bytes that lie n bits further on, again
// and again; what remains is reduced from 128 to 32 bits at the end.
//
// Why it is right whatever the length: a rest of 1 to 15 bytes is taken as the end of an
// overlapping 16-byte load, and the accumulator is split around it (fold_rest). Nothing outside
// [bytes, bytes + length) is touched.

#include <immintrin.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/prefetch.h"

// Functions that may use the instructions, inlined into kernels that were chosen because the
// processor has them; nothing else in the program needs to.
#define UROCE_PCLMUL [[gnu::target("pclmul,sse4.1"), gnu::always_inline]] inline

namespace uroce::crc32_fold {

constexpr std::size_t kBlock = 16;

// x^n modulo the polynomial, bit-reflected, one bit up (a product of two reflected polynomials
// comes out one bit down).
constexpr std::uint64_t x_power(unsigned n) {
  std::uint32_t remainder = 0x8000'0000;
  for (unsigned i = 0; i < n; ++i) {
    remainder = (remainder >> 1U) ^ ((remainder & 1U) != 0 ? 0xEDB8'8320U : 0U);
  }
  return std::uint64_t{remainder} << 1U;
}

// The pair of multipliers that moves an accumulator `bits` further along the message.
struct alignas(16) Keys {
  std::uint64_t low;
  std::uint64_t high;
};
constexpr Keys keys_for(unsigned bits) { return {x_power(bits + 32), x_power(bits - 32)}; }

constexpr Keys kBy512 = keys_for(512);
constexpr Keys kBy384 = keys_for(384);
constexpr Keys kBy256 = keys_for(256);
constexpr Keys kBy128 = keys_for(128);
static_assert(kBy512.low == 0x1'5444'2BD4 && kBy512.high == 0x1'C6E4'1596);
static_assert(kBy128.low == 0x1'7519'97D0 && kBy128.high == 0x0'CCAA'009E);

// floor(x^95 / P), bit-reflected, for Barrett's reduction of 96 bits to 32; and P itself.
constexpr std::uint64_t barrett_quotient() {
  std::uint64_t quotient = 0;
  std::uint32_t remainder = 1;  // x^31
  for (unsigned i = 0; i < 64; ++i) {
    quotient |= std::uint64_t{remainder & 1U} << i;
    remainder = (remainder >> 1U) ^ ((remainder & 1U) != 0 ? 0xEDB8'8320U : 0U);
  }
  return quotient;
}
constexpr Keys kBarrett{barrett_quotient(), 0x1'DB71'0641};

// loadu(kShifts + r) as a shuffle puts the first r bytes at the end, kShifts + 16 + r drops them.
alignas(16) constexpr std::array<std::uint8_t, 48> kShifts = [] {
  std::array<std::uint8_t, 48> shifts{};
  for (std::size_t i = 0; i < shifts.size(); ++i) {
    shifts[i] = static_cast<std::uint8_t>(i >= 16 && i < 32 ? i - 16 : 0x80);
  }
  return shifts;
}();

UROCE_PCLMUL __m128i load(const void* bytes) {
  return _mm_loadu_si128(static_cast<const __m128i*>(bytes));
}

UROCE_PCLMUL __m128i fold(__m128i accumulator, __m128i keys, __m128i next) {
  const __m128i low = _mm_clmulepi64_si128(accumulator, keys, 0x00);
  const __m128i high = _mm_clmulepi64_si128(accumulator, keys, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, next), high);
}

// `accumulator` moved along by `keys`, without what comes there.
UROCE_PCLMUL __m128i move(__m128i accumulator, __m128i keys) {
  return _mm_xor_si128(_mm_clmulepi64_si128(accumulator, keys, 0x00),
                       _mm_clmulepi64_si128(accumulator, keys, 0x11));
}

// 128 bits to 32: A x^32 mod P. The first half of A is folded onto the second, which leaves 96 bits
// B; then q = floor(B / P) from the first 64 bits of B, exactly, because floor(x^95 / P) has 64
// bits; and B - q P are its last 32.
UROCE_PCLMUL std::uint32_t reduce(__m128i a) {
  const __m128i barrett = load(&kBarrett);
  const __m128i b =
      _mm_xor_si128(_mm_srli_si128(a, 8), _mm_clmulepi64_si128(a, load(&kBy128), 0x10));
  const __m128i quotient = _mm_clmulepi64_si128(b, barrett, 0x00);
  const __m128i product = _mm_clmulepi64_si128(quotient, barrett, 0x10);
  return static_cast<std::uint32_t>(_mm_extract_epi32(_mm_xor_si128(b, product), 2));
}

// The source of a sum, read once from front to back, copied or masked on the way.
template <bool kCopy, bool kMasked>
struct Input {
  const std::byte* source;
  std::byte* destination;
  const std::byte* mask;  // read only in front of the first 64 bytes
  __m128i previous;       // the last block as it was read
  std::size_t ahead;      // how far behind `source` prefetch() looks

  // Once every cache line. A prefetch of what isn't mapped does nothing.
  UROCE_PCLMUL void prefetch() const {
    _mm_prefetch(reinterpret_cast<const char*>(source) + ahead, _MM_HINT_T0);
  }

  template <bool kStart>
  UROCE_PCLMUL __m128i next() {
    __m128i block = load(source);
    if constexpr (kCopy) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(destination), block);
      destination += kBlock;
      previous = block;
    }
    if constexpr (kMasked && kStart) {
      block = _mm_or_si128(block, load(mask));
      mask += kBlock;
    }
    source += kBlock;
    return block;
  }

  // The last `rest` (1 to 15) bytes, at the end of a block whose front is `front`'s end.
  template <bool kStart>
  UROCE_PCLMUL __m128i last(__m128i front, std::size_t rest) {
    const __m128i drop = load(kShifts.data() + kBlock + rest);
    const std::ptrdiff_t back =
        static_cast<std::ptrdiff_t>(rest) - static_cast<std::ptrdiff_t>(kBlock);
    __m128i block = load(source + back);
    if constexpr (kCopy) {
      // Written together with what was read before, not with what lies there now.
      const __m128i whole = _mm_blendv_epi8(_mm_shuffle_epi8(previous, drop), block, drop);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(destination + back), whole);
    }
    if constexpr (kMasked && kStart) {
      block = _mm_or_si128(block, load(mask + back));
    }
    return _mm_blendv_epi8(_mm_shuffle_epi8(front, drop), block, drop);
  }
};

template <bool kStart, typename Source>
UROCE_PCLMUL __m128i fold_rest(__m128i x, Source& input, std::size_t length) {
  const __m128i by128 = load(&kBy128);
  for (; length >= kBlock; length -= kBlock) {
    x = fold(x, by128, input.template next<kStart>());
  }
  if (length > 0) {
    const __m128i moved = _mm_shuffle_epi8(x, load(kShifts.data() + length));
    x = fold(moved, by128, input.template last<kStart>(x, length));
  }
  return x;
}

// Sums at least 16 bytes, fewer than 64. They are moved to the last of them side by side, not one
// after the other: at these lengths the multiplications' latency is all there is.
template <typename Source>
UROCE_PCLMUL std::uint32_t sum_short(std::uint32_t state, Source& input, std::size_t length) {
  __m128i x =
      _mm_xor_si128(input.template next<true>(), _mm_cvtsi32_si128(static_cast<int>(state)));
  if (length >= 3 * kBlock) {
    const __m128i x1 = input.template next<true>();
    const __m128i x2 = input.template next<true>();
    x = _mm_xor_si128(_mm_xor_si128(move(x, load(&kBy256)), move(x1, load(&kBy128))), x2);
  } else if (length >= 2 * kBlock) {
    x = fold(x, load(&kBy128), input.template next<true>());
  }
  return reduce(fold_rest<true>(x, input, length % kBlock));
}

// Four neighbouring accumulators to one, at the place of the last.
UROCE_PCLMUL __m128i join(__m128i x0, __m128i x1, __m128i x2, __m128i x3) {
  const __m128i first = _mm_xor_si128(move(x0, load(&kBy384)), move(x1, load(&kBy256)));
  return _mm_xor_si128(_mm_xor_si128(first, move(x2, load(&kBy128))), x3);
}

}  // namespace uroce::crc32_fold
