#pragma once

// CRC-32 (reflected, polynomial 0xEDB88320) as a bare register: no initial value, no final
// inversion, so that a sum can be continued over any number of pieces. Each kernel does the same;
// the one that is fastest on this processor is chosen when the program starts.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace uroce {

// Bytes that are or-ed into the start of what is summed.
using CrcMask = std::array<std::byte, 64>;

struct Crc32Kernel {
  std::string_view name;

  std::uint32_t (*update)(std::uint32_t state, const std::byte* bytes, std::size_t length);

  // Copies and sums in one pass. Every byte of the source is summed as it was copied, even if
  // somebody changes it meanwhile. `ahead`: bytes behind what is being read that are brought into
  // the cache on the way, because the next call will want them; 0: none. Nothing need be mapped
  // there.
  std::uint32_t (*copy)(std::uint32_t state, std::byte* destination, const std::byte* source,
                        std::size_t length, std::size_t ahead);

  // Sums as if the first 64 bytes had been or-ed with the mask. REQUIRES: length >= 16.
  std::uint32_t (*update_masked)(std::uint32_t state, const std::byte* bytes, std::size_t length,
                                 const CrcMask& mask);

  // The product of two polynomials modulo the CRC's, each reflected: the highest bit is 1, the next
  // one x.
  std::uint32_t (*multiply)(std::uint32_t a, std::uint32_t b);
};

// The kernels that this processor can run, narrowest first.
[[nodiscard]] std::span<const Crc32Kernel* const> crc32_kernels();

// The one in use. Changing it is for tests and benchmarks, before other threads run.
namespace detail {
extern constinit const Crc32Kernel* crc32_chosen;
}
[[nodiscard]] inline const Crc32Kernel& crc32_kernel() { return *detail::crc32_chosen; }
void set_crc32_kernel(const Crc32Kernel& kernel);

// The one that costs least, in whatever unit. REQUIRES: at least one.
using Crc32Cost = std::uint64_t (*)(const Crc32Kernel& kernel);
[[nodiscard]] const Crc32Kernel& cheapest_crc32_kernel(std::span<const Crc32Kernel* const> kernels,
                                                       Crc32Cost cost);

[[nodiscard]] inline std::uint32_t crc32_update(std::uint32_t state, const std::byte* bytes,
                                                std::size_t length) {
  return crc32_kernel().update(state, bytes, length);
}
[[nodiscard]] inline std::uint32_t crc32_copy(std::uint32_t state, std::byte* destination,
                                              const std::byte* source, std::size_t length,
                                              std::size_t ahead = 0) {
  return crc32_kernel().copy(state, destination, source, length, ahead);
}

// REQUIRES, except for the portable one: the processor has it.
extern const Crc32Kernel kCrc32Portable;
// Of amd64.
extern const Crc32Kernel kCrc32Pclmul;
extern const Crc32Kernel kCrc32Vpclmul256;
extern const Crc32Kernel kCrc32Vpclmul;
// Of arm64.
extern const Crc32Kernel kCrc32Arm;
extern const Crc32Kernel kCrc32ArmInterleaved;

}  // namespace uroce
