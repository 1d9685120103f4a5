// CRC-32 by VPCLMULQDQ on AVX-512: four accumulators of 64 bytes, each four of 16.

#include <string_view>

#include "dataplane/wire/crc/crc32_fold.h"

#define UROCE_WIDE \
  [[gnu::target("pclmul,sse4.1,vpclmulqdq,avx512f,avx512vl,avx512bw"), gnu::always_inline]] inline
#define UROCE_WIDE_ENTRY [[gnu::target("pclmul,sse4.1,vpclmulqdq,avx512f,avx512vl,avx512bw")]]

namespace uroce::crc32_wide {
namespace {

using namespace crc32_fold;

// Broadcast and extract in their zeroing forms, with nothing zeroed: gcc 12 warns of an
// uninitialised variable inside the plain ones (and inside the cast to 128 bits).
struct Wide {
  using Vector = __m512i;
  static constexpr std::string_view kName = "vpclmul";
  static constexpr std::size_t kBytes = 64;
  static constexpr std::size_t kLengthMin = 256;
  static constexpr int kParts = 4;

  UROCE_WIDE static Vector load(const std::byte* bytes) { return _mm512_loadu_si512(bytes); }
  UROCE_WIDE static void store(std::byte* bytes, Vector value) {
    _mm512_storeu_si512(bytes, value);
  }
  UROCE_WIDE static Vector of(const Keys& keys) {
    return _mm512_maskz_broadcast_i32x4(0xFFFF, crc32_fold::load(&keys));
  }
  UROCE_WIDE static Vector of(std::uint32_t state) {
    return _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(state)));
  }
  UROCE_WIDE static Vector either(Vector a, Vector b) { return _mm512_or_si512(a, b); }
  UROCE_WIDE static Vector differ(Vector a, Vector b) { return _mm512_xor_si512(a, b); }
  template <int kIndex>
  UROCE_WIDE static __m128i part(Vector wide) {
    return _mm512_maskz_extracti32x4_epi32(0xF, wide, kIndex);
  }
  UROCE_WIDE static Vector fold(Vector accumulator, Vector keys, Vector next) {
    constexpr int kXorOfThree = 0x96;
    const Vector low = _mm512_clmulepi64_epi128(accumulator, keys, 0x00);
    const Vector high = _mm512_clmulepi64_epi128(accumulator, keys, 0x11);
    return _mm512_ternarylogic_epi64(low, high, next, kXorOfThree);
  }
  UROCE_WIDE static __m128i join(Vector x) {
    return crc32_fold::join(part<0>(x), part<1>(x), part<2>(x), part<3>(x));
  }
};

}  // namespace
}  // namespace uroce::crc32_wide

#include "dataplane/wire/crc/crc32_wide.h"

namespace uroce {

const Crc32Kernel kCrc32Vpclmul = kWideKernel;

}  // namespace uroce
