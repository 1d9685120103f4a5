// CRC-32 by carry-less multiplication, after Intel's "Fast CRC Computation for Generic Polynomials
// Using PCLMULQDQ" (2009): the message is a polynomial, and 16 bytes of it may be replaced by
// anything congruent to them modulo the CRC's polynomial. So four accumulators are multiplied by
// x^512 (mod P) and added to the next 64 bytes, again and again; what remains is reduced from 128
// to 32 bits at the end.
//
// Why it is right whatever the length: a rest of 1 to 15 bytes is taken as the end of an
// overlapping 16-byte load, and the accumulator is split around it (fold_rest). Nothing outside
// [bytes, bytes + length) is touched.

#include <immintrin.h>

#include <cstring>

#include "dataplane/wire/crc32.h"

// Functions of this file may use the instructions; nothing else in the program needs to.
#define UROCE_PCLMUL [[gnu::target("pclmul,sse4.1"), gnu::always_inline]] inline
#define UROCE_PCLMUL_ENTRY [[gnu::target("pclmul,sse4.1")]]

namespace uroce {
namespace {

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
constexpr Keys kBy128 = keys_for(128);
constexpr Keys kTo64{x_power(64), 0};
constexpr Keys kBarrett{0x1'DB71'0641, 0x1'F701'1641};  // P, and floor(x^64 / P), reflected
static_assert(kBy512.low == 0x1'5444'2BD4 && kBy512.high == 0x1'C6E4'1596);
static_assert(kBy128.low == 0x1'7519'97D0 && kBy128.high == 0x0'CCAA'009E);

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

// 128 bits to 32: two more foldings, then Barrett's reduction.
UROCE_PCLMUL std::uint32_t reduce(__m128i x) {
  const __m128i low_halves = _mm_setr_epi32(-1, 0, -1, 0);
  const __m128i by128 = load(&kBy128);
  const __m128i to64 = load(&kTo64);
  const __m128i barrett = load(&kBarrett);
  x = _mm_xor_si128(_mm_srli_si128(x, 8), _mm_clmulepi64_si128(x, by128, 0x10));
  x = _mm_xor_si128(_mm_srli_si128(x, 4),
                    _mm_clmulepi64_si128(_mm_and_si128(x, low_halves), to64, 0x00));
  __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(x, low_halves), barrett, 0x10);
  quotient = _mm_clmulepi64_si128(_mm_and_si128(quotient, low_halves), barrett, 0x00);
  return static_cast<std::uint32_t>(_mm_extract_epi32(_mm_xor_si128(x, quotient), 1));
}

// The source of a sum, read once from front to back, copied or masked on the way.
template <bool kCopy, bool kMasked>
struct Input {
  const std::byte* source;
  std::byte* destination;
  const std::byte* mask;  // read only in front of the first 64 bytes
  __m128i previous;       // the last block as it was read

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

// REQUIRES: length >= 16.
template <typename Source>
UROCE_PCLMUL std::uint32_t sum(std::uint32_t state, Source& input, std::size_t length) {
  __m128i x0 =
      _mm_xor_si128(input.template next<true>(), _mm_cvtsi32_si128(static_cast<int>(state)));
  if (length < 4 * kBlock) {
    return reduce(fold_rest<true>(x0, input, length - kBlock));
  }
  __m128i x1 = input.template next<true>();
  __m128i x2 = input.template next<true>();
  __m128i x3 = input.template next<true>();
  length -= 4 * kBlock;
  const __m128i by512 = load(&kBy512);
  for (; length >= 4 * kBlock; length -= 4 * kBlock) {
    x0 = fold(x0, by512, input.template next<false>());
    x1 = fold(x1, by512, input.template next<false>());
    x2 = fold(x2, by512, input.template next<false>());
    x3 = fold(x3, by512, input.template next<false>());
  }
  const __m128i by128 = load(&kBy128);
  x0 = fold(fold(fold(x0, by128, x1), by128, x2), by128, x3);
  return reduce(fold_rest<false>(x0, input, length));
}

UROCE_PCLMUL_ENTRY std::uint32_t update(std::uint32_t state, const std::byte* bytes,
                                        std::size_t length) {
  if (length < kBlock) {
    return kCrc32Portable.update(state, bytes, length);
  }
  Input<false, false> input{bytes, nullptr, nullptr, {}};
  return sum(state, input, length);
}

UROCE_PCLMUL_ENTRY std::uint32_t copy(std::uint32_t state, std::byte* destination,
                                      const std::byte* source, std::size_t length) {
  if (length < kBlock) {
    return kCrc32Portable.copy(state, destination, source, length);
  }
  Input<true, false> input{source, destination, nullptr, {}};
  return sum(state, input, length);
}

UROCE_PCLMUL_ENTRY std::uint32_t update_masked(std::uint32_t state, const std::byte* bytes,
                                               std::size_t length, const CrcMask& mask) {
  Input<false, true> input{bytes, nullptr, mask.data(), {}};
  return sum(state, input, length);
}

}  // namespace

const Crc32Kernel kCrc32Pclmul{
    .name = "pclmul", .update = update, .copy = copy, .update_masked = update_masked};

}  // namespace uroce
