#pragma once

// Limits the READ responses that are outstanding to a worker by one port, over all its queue pairs,
// to what its completer ring holds, less a quarter for acknowledgements. Otherwise our own READs
// would overflow the ring, and each loss would wait for a timer. A READ longer than that is sent
// when nothing else is outstanding.

#include <cstdint>

namespace uroce {

class ReadCredits {
 public:
  static constexpr std::uint32_t kFramesMax = 1'536;

  // What is left while `out` frames are outstanding.
  explicit constexpr ReadCredits(std::uint32_t out = 0) : out_(out) {}

  // No credits at all.
  static constexpr ReadCredits none() { return ReadCredits(kFramesMax); }

  [[nodiscard]] constexpr bool holds(std::uint32_t frames) const {
    return out_ == 0 || (out_ < kFramesMax && frames <= kFramesMax - out_);
  }
  constexpr void take(std::uint32_t frames) { out_ += frames; }

 private:
  std::uint32_t out_;
};

}  // namespace uroce
