#pragma once

// Moves a resized ring to its new memory in steps, each a task of the first worker, so that other
// queue pairs there wait for one step, not for the whole ring.

#include <cerrno>
#include <cstdint>

#include "base/result.h"
#include "dataplane/engine/engine.h"
#include "dataplane/qp/queues/ring_resize.h"

namespace uroce::control {

// Twice the steps that the largest ring takes: a program that fills its ring as fast as it is
// copied gets EBUSY.
inline constexpr std::uint32_t kResizeStepsMax = 256;

// step(move) copies a part and returns true when the move is complete.
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
