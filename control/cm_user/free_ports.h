#pragma once

// The ephemeral ports of one port space that nobody has: Linux's ip_local_port_range, for ids that
// bind to port 0. A word holds 64 of them, so a free one is found in a few hundred steps, however
// many are taken. Pure.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

namespace uroce::control::cm_user {

class FreePorts {
 public:
  static constexpr std::uint16_t kMin = 32'768;
  static constexpr std::uint16_t kMax = 60'999;
  static constexpr std::uint32_t kCount = kMax - kMin + 1;
  static constexpr bool contains(std::uint16_t port) { return port >= kMin && port <= kMax; }

  FreePorts() {
    for (std::uint32_t index = 0; index < kCount; ++index) {
      words_[index / kWordBits] |= bit(index);
    }
  }

  // The first free one from the `first`th on, of which the last is followed by the first; nullopt:
  // all are taken. REQUIRES: first < kCount
  [[nodiscard]] std::optional<std::uint16_t> next(std::uint32_t first) const {
    // The word where it begins is visited again in the end, for the bits before `first`.
    std::uint64_t mask = std::numeric_limits<std::uint64_t>::max() << (first % kWordBits);
    for (std::size_t i = 0; i <= kWords; ++i) {
      const std::size_t at = (first / kWordBits + i) % kWords;
      if (const std::uint64_t free = words_[at] & mask; free != 0) {
        return static_cast<std::uint16_t>(kMin + at * kWordBits +
                                          static_cast<std::size_t>(std::countr_zero(free)));
      }
      mask = std::numeric_limits<std::uint64_t>::max();
    }
    return std::nullopt;
  }

  // REQUIRES: contains(port)
  void take(std::uint16_t port) { words_[index_of(port) / kWordBits] &= ~bit(index_of(port)); }
  void give_back(std::uint16_t port) { words_[index_of(port) / kWordBits] |= bit(index_of(port)); }

 private:
  static constexpr std::uint32_t kWordBits = 64;
  static constexpr std::size_t kWords = (kCount + kWordBits - 1) / kWordBits;

  static std::uint32_t index_of(std::uint16_t port) {
    return static_cast<std::uint32_t>(port - kMin);
  }
  static std::uint64_t bit(std::uint32_t index) { return std::uint64_t{1} << (index % kWordBits); }

  std::array<std::uint64_t, kWords> words_{};  // a bit is set: the port is free
};

}  // namespace uroce::control::cm_user
