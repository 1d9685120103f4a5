#pragma once

// Time stamps of posts, for the daemon's latency histograms (dataplane/qp/latency), which time one
// work request per queue at a time. Reading the clock costs more than the rest of a post, so the
// program does it only on request: each request has a number, and the program's next post answers
// it. Request and answer lie next to the producer index, which the program writes with each post
// and the daemon reads then: no other cache line has to move for them.
//
// A side that doesn't implement this leaves zeros, and the daemon works without stamps. The values
// are hints: the daemon accepts no index that it hasn't found in the ring, and no time before its
// request or in the future.

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
  ring.producer.stamp_wanted.store(number, std::memory_order_relaxed);
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
  return ring.producer.stamp_wanted.load(std::memory_order_relaxed) !=
         ring.producer.stamp_given.load(std::memory_order_relaxed);
}

// Of the `count` work requests from index `first` on, which are published next, another place's is
// stamped each time: the first one would always wait least.
inline void give_stamp(RingControl& ring, std::uint32_t first, std::uint32_t count,
                       std::uint64_t time_ns) {
  const std::uint32_t number = ring.producer.stamp_wanted.load(std::memory_order_relaxed);
  const std::uint32_t place = count == 0 ? 0 : number % count;
  ring.producer.stamped.store(first + place, std::memory_order_relaxed);
  ring.producer.stamp_ns.store(time_ns, std::memory_order_relaxed);
  ring.producer.stamp_given.store(number, std::memory_order_release);
}

}  // namespace uroce::abi
