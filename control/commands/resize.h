#pragma once

// Moves a resized ring to its new memory in steps, each a task of the first worker, so that other
// queue pairs there wait for one step, not for 16 MiB.

#include <cerrno>
#include <cstdint>

#include "base/result.h"
#include "dataplane/engine/engine.h"
#include "dataplane/qp/queues/ring_resize.h"

namespace uroce::control {

// As many as the largest ring takes, twice: a program that fills its ring as fast as it is copied
// isn't followed for ever.
inline constexpr std::uint32_t kResizeStepsMax = 256;

// step(move) copies, and says whether that was all.
template <typename Step>
Status resize_in_steps(Engine& engine, Step&& step) {
  RingResize move;
  for (std::uint32_t count = 0; count < kResizeStepsMax; ++count) {
    Result<bool> over = false;
    engine.call(0, [&](Worker&) { over = step(&move); });
    if (!over) {
      return over.error();
    }
    if (*over) {
      return ok();
    }
  }
  return Error{EBUSY, "the ring is filled as fast as it is copied; resize it while it is quiet"};
}

}  // namespace uroce::control
