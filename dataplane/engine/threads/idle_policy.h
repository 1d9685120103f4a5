#pragma once

// What a worker does when there is nothing to do.

#include <cstdint>

namespace uroce {

enum class IdlePolicy : std::uint8_t {
  kPoll,      // never sleeps, but yields the processor to whoever else wants it
  kAdaptive,  // spins a little, then sleeps until a doorbell, a deadline or a frame
};

}  // namespace uroce
