// Which CRC-32 kernel this processor runs.

#include "dataplane/wire/crc/crc32.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#else
#include <sys/auxv.h>
#endif

#include <algorithm>
#include <limits>

namespace uroce {

// Constant-initialised, so that whoever sums before this file's initialisers ran gets a right
// (slow) answer.
constinit const Crc32Kernel* detail::crc32_chosen = &kCrc32Portable;

namespace {

struct Kernels {
  std::array<const Crc32Kernel*, 4> list{&kCrc32Portable};
  std::size_t count = 1;

#if defined(__x86_64__)
  Kernels() {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1")) {
      list[count++] = &kCrc32Pclmul;
      // The wide kernels hand short sums to the other one.
      const bool wide = __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx2");
      if (wide) {
        list[count++] = &kCrc32Vpclmul256;
      }
      if (wide && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
        list[count++] = &kCrc32Vpclmul;
      }
    }
  }
#else
  Kernels() {
    const unsigned long has = ::getauxval(AT_HWCAP);
    if ((has & HWCAP_CRC32) != 0) {
      list[count++] = &kCrc32Arm;
      if ((has & HWCAP_PMULL) != 0) {
        list[count++] = &kCrc32ArmInterleaved;
      }
    }
  }
#endif
};

const Kernels& kernels() {
  static const Kernels found;
  return found;
}

// On arm64 a tick may take 40 ns, in which the slower kernel sums a twelfth of what is measured.
std::uint64_t ticks_of_processor() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  std::uint64_t ticks = 0;
  asm volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(ticks) : : "memory");
  return ticks;
#endif
}

// Of 4 KiB in the first-level cache, in ticks of the processor: the least of several, because
// others may have the processor in between. 30 us for all kernels together.
std::uint64_t measured(const Crc32Kernel& kernel) {
  constexpr std::size_t kBytes = 4'096;
  constexpr int kRounds = 16;
  static std::array<std::byte, kBytes> from;
  static std::array<std::byte, kBytes> to;
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  volatile std::uint32_t state = 0;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t start = ticks_of_processor();
    state = kernel.copy(state, to.data(), from.data(), kBytes, 0);
    least = std::min<std::uint64_t>(least, ticks_of_processor() - start);
  }
  return least;
}

// Wider isn't always faster: some processors slow down for 64-byte vectors, or have half as many
// units for them. The portable kernel is for those that have nothing else.
[[maybe_unused]] const bool kChosenAtStart = [] {
  const std::span<const Crc32Kernel* const> runs = crc32_kernels();
  detail::crc32_chosen =
      runs.size() == 1 ? runs.front() : &cheapest_crc32_kernel(runs.subspan(1), measured);
  return true;
}();

}  // namespace

std::span<const Crc32Kernel* const> crc32_kernels() {
  return {kernels().list.data(), kernels().count};
}

const Crc32Kernel& cheapest_crc32_kernel(std::span<const Crc32Kernel* const> kernels,
                                         Crc32Cost cost) {
  const Crc32Kernel* cheapest = kernels.front();
  std::uint64_t least = cost(*cheapest);
  for (const Crc32Kernel* kernel : kernels.subspan(1)) {
    const std::uint64_t costs = cost(*kernel);
    if (costs < least) {
      cheapest = kernel;
      least = costs;
    }
  }
  return *cheapest;
}

void set_crc32_kernel(const Crc32Kernel& kernel) { detail::crc32_chosen = &kernel; }

}  // namespace uroce
