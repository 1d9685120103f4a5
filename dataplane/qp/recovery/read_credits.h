#pragma once

// Limits the READ responses that are outstanding to a worker, over all its queue pairs, to what its
// completer ring holds, less a quarter for acknowledgements. Otherwise our own READs would overflow
// the ring, and each loss would wait for a timer. Each user who reads has an equal share. A READ
// longer than that is sent when nothing else of its user is outstanding.

#include <cstdint>

namespace uroce {

class ReadCredits {
 public:
  static constexpr std::uint32_t kFramesMax = 1'536;

  // What is left of `share` while `out` frames are outstanding.
  explicit constexpr ReadCredits(std::uint32_t out = 0, std::uint32_t share = kFramesMax)
      : out_(out), share_(share) {}

  // No credits at all.
  static constexpr ReadCredits none() { return ReadCredits(kFramesMax); }

  [[nodiscard]] constexpr bool holds(std::uint32_t frames) const {
    return out_ == 0 || (out_ < share_ && frames <= share_ - out_);
  }
  constexpr void take(std::uint32_t frames) { out_ += frames; }

 private:
  std::uint32_t out_;
  std::uint32_t share_;
};

}  // namespace uroce
