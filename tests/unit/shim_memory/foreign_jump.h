#pragma once

// What other libraries write over the start of a function that they hook.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace uroce::test {

#if defined(__x86_64__)

// As Open MPI.
inline std::array<std::uint8_t, 13> foreign_jump(const void* target) {
  std::array<std::uint8_t, 13> code{0x49, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0, 0x41, 0xff, 0xe3};
  std::memcpy(code.data() + 2, &target, sizeof(target));
  return code;
}
// As UCX.
inline std::array<std::uint8_t, 12> other_foreign_jump(const void* target) {
  std::array<std::uint8_t, 12> code{0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0};
  std::memcpy(code.data() + 2, &target, sizeof(target));
  return code;
}
// No jump: the start of madvise, a nop before and behind its instruction.
inline constexpr std::array<std::uint8_t, 7> kUnknownStart{0x90, 0xb8, 0x1c, 0, 0, 0, 0x90};

#else

// By four moves into a register: UCX and Open MPI take x15.
inline std::array<std::uint32_t, 5> jump_by(unsigned reg, const void* target) {
  const auto address = reinterpret_cast<std::uintptr_t>(target);
  const auto part = [&](unsigned shift) {
    return static_cast<std::uint32_t>(address >> shift & 0xffffU) << 5U | reg;
  };
  return {0xd2e00000U | part(48), 0xf2c00000U | part(32), 0xf2a00000U | part(16),
          0xf2800000U | part(0), 0xd61f0000U | reg << 5U};
}
inline std::array<std::uint32_t, 5> foreign_jump(const void* target) { return jump_by(15, target); }
inline std::array<std::uint32_t, 5> other_foreign_jump(const void* target) {
  return jump_by(17, target);
}
// `mov x9, x9` in place of the instruction that marks the start.
inline constexpr std::array<std::uint32_t, 1> kUnknownStart{0xaa0903e9};

#endif

}  // namespace uroce::test
