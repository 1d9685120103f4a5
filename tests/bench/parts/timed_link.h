#pragma once

// Two ports joined by a link in virtual time: a rate, a one-way delay, a short transmit ring that
// pushes back when it is full, and independent loss from a seed. For benches whose figures must not
// depend on the machine.

#include <cstdint>
#include <memory>
#include <utility>

#include "base/time.h"
#include "dataplane/port/port.h"

namespace uroce::bench {

struct TimedLinkConfig {
  double bits_per_ns = 25;
  Duration delay = 25 * kNanosecondsPerMicrosecond;  // one way
  double loss = 0;                                   // of each frame, in both directions
  std::uint64_t seed = 1;
  std::uint32_t frames = 8'192;  // of the pool
};

// MAC addresses are 02:00:00:00:00:01 and :02.
[[nodiscard]] std::pair<std::unique_ptr<Port>, std::unique_ptr<Port>> make_timed_link(
    const TimedLinkConfig& config);

}  // namespace uroce::bench
