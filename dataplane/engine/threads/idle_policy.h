#pragma once

// How a worker behaves when it is idle.

#include <cstdint>

namespace uroce {

enum class IdlePolicy : std::uint8_t {
  kPoll,      // never sleeps, but yields the processor to other threads
  kAdaptive,  // spins briefly, then sleeps until a doorbell, a deadline or a frame
};

}  // namespace uroce
