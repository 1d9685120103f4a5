#pragma once

// How a program's thread that polled an empty completion queue sleeps for a short time, so that the
// worker gets its processor, and is woken as soon as that helps. It never sleeps longer than its
// own timeout, so nothing here has to be exact: a wake-up may be missed, spurious, or meant for
// another thread at the same queue.

#include <atomic>
#include <cstdint>

namespace uroce::abi {

struct Nap {
  // A futex. Not 0: a thread naps, or is about to, or has napped. The daemon clears it when it
  // wakes the thread.
  std::atomic<std::uint32_t> asleep;
  // The daemon wakes it when the ring's producer index is here, or has moved and the worker has
  // little else to do.
  std::atomic<std::uint32_t> until;
};

}  // namespace uroce::abi
