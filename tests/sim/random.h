#pragma once

// The source of everything random in a simulation: one seed, one sequence, the same on every
// machine (std's distributions differ between libraries).

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace uroce::sim {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {  // splitmix64
    std::uint64_t z = (state_ += 0x9E37'79B9'7F4A'7C15U);
    z = (z ^ (z >> 30U)) * 0xBF58'476D'1CE4'E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D0'49BB'1331'11EBU;
    return z ^ (z >> 31U);
  }
  // From `low` to `high`, both included.
  std::uint32_t range(std::uint32_t low, std::uint32_t high) {
    return low + static_cast<std::uint32_t>(next() % (std::uint64_t{high} - low + 1));
  }
  bool chance(double probability) {
    return static_cast<double>(next() >> 11U) * 0x1p-53 < probability;
  }
  template <typename T, std::size_t N>
  T pick(const T (&choices)[N]) {
    return choices[next() % N];
  }
  void fill(std::span<std::byte> bytes) {
    for (std::size_t i = 0; i < bytes.size(); i += sizeof(std::uint64_t)) {
      const std::uint64_t value = next();
      std::memcpy(bytes.data() + i, &value, std::min(sizeof(value), bytes.size() - i));
    }
  }

 private:
  std::uint64_t state_;
};

}  // namespace uroce::sim
