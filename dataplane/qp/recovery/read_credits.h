#pragma once

// How many READ responses a worker may have on their way to it by one port, over all its queue
// pairs: no more than its completer ring holds, with a quarter for acknowledgements. Else what we
// ask for ourselves would overflow it, and each loss waits for a timer. A READ that is longer goes
// alone.

#include <cstdint>

namespace uroce {

class ReadCredits {
 public:
  static constexpr std::uint32_t kFramesMax = 1'536;

  // Room beside `out` frames that are on their way.
  explicit constexpr ReadCredits(std::uint32_t out = 0) : out_(out) {}

  // For none at all.
  static constexpr ReadCredits none() { return ReadCredits(kFramesMax); }

  [[nodiscard]] constexpr bool holds(std::uint32_t frames) const {
    return out_ == 0 || (out_ < kFramesMax && frames <= kFramesMax - out_);
  }
  constexpr void take(std::uint32_t frames) { out_ += frames; }

 private:
  std::uint32_t out_;
};

}  // namespace uroce
