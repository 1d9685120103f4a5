// CRC-32 by VPCLMULQDQ on AVX2, for processors without AVX-512: eight accumulators of 32 bytes,
// each two of 16.

#include <string_view>

#include "dataplane/wire/crc/crc32_fold.h"

#define UROCE_WIDE [[gnu::target("pclmul,sse4.1,vpclmulqdq,avx2"), gnu::always_inline]] inline
#define UROCE_WIDE_ENTRY [[gnu::target("pclmul,sse4.1,vpclmulqdq,avx2")]]

namespace uroce::crc32_wide {
namespace {

using namespace crc32_fold;

struct Wide {
  using Vector = __m256i;
  static constexpr std::string_view kName = "vpclmul256";
  static constexpr std::size_t kBytes = 32;
  static constexpr std::size_t kLengthMin = 512;
  static constexpr int kParts = 2;

  UROCE_WIDE static Vector load(const std::byte* bytes) {
    return _mm256_loadu_si256(reinterpret_cast<const Vector*>(bytes));
  }
  UROCE_WIDE static void store(std::byte* bytes, Vector value) {
    _mm256_storeu_si256(reinterpret_cast<Vector*>(bytes), value);
  }
  UROCE_WIDE static Vector of(const Keys& keys) {
    return _mm256_broadcastsi128_si256(crc32_fold::load(&keys));
  }
  UROCE_WIDE static Vector of(std::uint32_t state) {
    return _mm256_zextsi128_si256(_mm_cvtsi32_si128(static_cast<int>(state)));
  }
  UROCE_WIDE static Vector either(Vector a, Vector b) { return _mm256_or_si256(a, b); }
  UROCE_WIDE static Vector differ(Vector a, Vector b) { return _mm256_xor_si256(a, b); }
  template <int kIndex>
  UROCE_WIDE static __m128i part(Vector wide) {
    return _mm256_extracti128_si256(wide, kIndex);
  }
  UROCE_WIDE static Vector fold(Vector accumulator, Vector keys, Vector next) {
    const Vector low = _mm256_clmulepi64_epi128(accumulator, keys, 0x00);
    const Vector high = _mm256_clmulepi64_epi128(accumulator, keys, 0x11);
    return differ(differ(low, next), high);
  }
  UROCE_WIDE static __m128i join(Vector x) {
    return crc32_fold::fold(part<0>(x), crc32_fold::load(&kBy128), part<1>(x));
  }
};

}  // namespace
}  // namespace uroce::crc32_wide

#include "dataplane/wire/crc/crc32_wide.h"

namespace uroce {

const Crc32Kernel kCrc32Vpclmul256 = kWideKernel;

}  // namespace uroce
