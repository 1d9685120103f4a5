#pragma once

// How long a queue pair's peer takes to answer: smoothed, with its mean deviation, as RFC 6298 has
// it. The caller samples only what was sent once (Karn): an answer to something that was sent twice
// doesn't say to which of both.

#include <algorithm>

#include "base/time.h"

namespace uroce {

class RoundTrip {
 public:
  // A worker that sleeps, or shares its processor, needs some time to answer.
  static constexpr Duration kPatienceMin = 100 * kNanosecondsPerMicrosecond;

  [[nodiscard]] bool known() const { return known_; }

  void sample(Duration took) {
    if (!known_) {
      known_ = true;
      smoothed_ = took;
      deviation_ = took / 2;
      return;
    }
    const Duration off = took > smoothed_ ? took - smoothed_ : smoothed_ - took;
    deviation_ = (3 * deviation_ + off) / 4;
    smoothed_ = (7 * smoothed_ + took) / 8;
  }

  // After so long without an answer it is worth a packet to ask again.
  [[nodiscard]] Duration patience() const {
    return std::max(kPatienceMin, 2 * smoothed_ + 4 * deviation_);
  }

  // The same for what was sent again already, and keeps others waiting.
  [[nodiscard]] Duration short_patience() const {
    return std::max(kPatienceMin, smoothed_ + 4 * deviation_);
  }

  [[nodiscard]] Duration smoothed() const { return smoothed_; }

 private:
  bool known_ = false;
  Duration smoothed_ = 0;
  Duration deviation_ = 0;
};

}  // namespace uroce
