// Which CRC-32 kernel this processor runs.

#include "dataplane/wire/crc32.h"

namespace uroce {
namespace {

struct Kernels {
  std::array<const Crc32Kernel*, 3> list{&kCrc32Portable};
  std::size_t count = 1;

  Kernels() {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1")) {
      list[count++] = &kCrc32Pclmul;
      // The wide kernel hands short sums to the other one.
      if (__builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx512bw") &&
          __builtin_cpu_supports("avx512vl")) {
        list[count++] = &kCrc32Vpclmul;
      }
    }
  }
};

const Kernels& kernels() {
  static const Kernels found;
  return found;
}

// Constant-initialised, so that whoever sums before this file's initialisers ran gets a right
// (slow) answer.
constinit const Crc32Kernel* chosen = &kCrc32Portable;

[[maybe_unused]] const bool kChosenAtStart = [] {
  chosen = kernels().list[kernels().count - 1];
  return true;
}();

}  // namespace

std::span<const Crc32Kernel* const> crc32_kernels() {
  return {kernels().list.data(), kernels().count};
}

const Crc32Kernel& crc32_kernel() { return *chosen; }

void set_crc32_kernel(const Crc32Kernel& kernel) { chosen = &kernel; }

}  // namespace uroce
