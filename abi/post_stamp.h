#pragma once

// When a program posted: for the daemon's latency histograms (dataplane/qp/latency), which time one
// work request of a queue at a time. Looking at a clock costs more than the rest of a post, so the
// program only does when it is asked to: each request for a stamp has a number, and the program's
// next post answers it. The number lies beside the consumer's index, which the program reads before
// each post and the daemon writes anyway, the answer beside the producer's, where it is the other
// way round; so no cache line goes back and forth more often.
//
// A side that knows nothing of it leaves zeros, and the daemon does without. All of it is advice:
// the daemon believes no index that it hasn't found, and no time before it asked or in the future.

#include <atomic>
#include <cstdint>

#include "abi/ring.h"

namespace uroce::abi {

// An answer, as the program has it.
struct PostStamp {
  std::uint32_t number;   // of the request for it
  std::uint32_t index;    // of the work request
  std::uint64_t time_ns;  // CLOCK_MONOTONIC, right before it was published
};

// The daemon's side.

inline void request_stamp(RingControl& ring, std::uint32_t number) {
  ring.consumer.stamp_wanted.store(number, std::memory_order_relaxed);
}

// REQUIRES: the producer's index was loaded with acquire; then the stamp of what it covers is seen.
inline PostStamp stamp_of(const RingControl& ring) {
  // Pairs with give_stamp()'s release: the answer is that number's, also if it was given only now.
  const std::uint32_t number = ring.producer.stamp_given.load(std::memory_order_acquire);
  return {.number = number,
          .index = ring.producer.stamped.load(std::memory_order_relaxed),
          .time_ns = ring.producer.stamp_ns.load(std::memory_order_relaxed)};
}

// The program's side.

inline bool wants_stamp(const RingControl& ring) {
  return ring.consumer.stamp_wanted.load(std::memory_order_relaxed) !=
         ring.producer.stamp_given.load(std::memory_order_relaxed);
}

// Of the `count` work requests from index `first` on, which are published next, another place's is
// stamped each time: the first one would always wait least.
inline void give_stamp(RingControl& ring, std::uint32_t first, std::uint32_t count,
                       std::uint64_t time_ns) {
  const std::uint32_t number = ring.consumer.stamp_wanted.load(std::memory_order_relaxed);
  const std::uint32_t place = count == 0 ? 0 : number % count;
  ring.producer.stamped.store(first + place, std::memory_order_relaxed);
  ring.producer.stamp_ns.store(time_ns, std::memory_order_relaxed);
  ring.producer.stamp_given.store(number, std::memory_order_release);
}

}  // namespace uroce::abi
