#pragma once

// Single-producer, single-consumer rings in memory that the daemon and one program both map:
// free-running 32-bit indices, each on its own cache line, and entries of a fixed stride. The slot
// of an index is index & (entries - 1).
//
// The program may overwrite every byte here at any time. The daemon therefore keeps its own index
// in private memory, reads the program's index once per batch, and treats a distance larger than
// the ring as a broken queue.

#include <atomic>
#include <cstdint>

#include "abi/nap.h"
#include "base/cache_line.h"

namespace uroce::abi {

// A free-running index. The side that owns it stores with release after it has written (producer)
// or read (consumer) the entries; the other side loads it with acquire before it reads (or
// overwrites) them. Of a completion queue's ring the program looks at the entries instead
// (completion.h), and at the producer index only when it naps.
//
// In a work queue the daemon stores its index with each work request that it is done with, so its
// line is another processor's. What a program looks at with each post lies beside the producer
// index, in the line that it writes anyway, although the daemon sets it now and then.
struct alignas(kCacheLine) RingIndex {
  std::atomic<std::uint32_t> value;
  // Only beside a receive ring's producer: not 0 when the queue pair is in ERR, where no message
  // will come to take what is posted. The daemon sets it (sequentially consistent) and then empties
  // the ring; the program publishes what it posted, and behind a full fence looks here whether to
  // ring the doorbell. One of the two so sees the other.
  std::atomic<std::uint32_t> doorbell_wanted;
  // Only beside a send ring's producer (post_stamp.h): the daemon's request for the time of a post,
  // and the program's answer.
  std::atomic<std::uint32_t> stamp_wanted;
  std::atomic<std::uint32_t> stamp_given;
  std::atomic<std::uint32_t> stamped;
  std::atomic<std::uint64_t> stamp_ns;
  // Only in a completion queue's ring, beside the producer, whose line the daemon writes anyway: a
  // thread of the program sleeps until something comes (nap.h).
  Nap nap;
};
static_assert(sizeof(RingIndex) == kCacheLine);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

struct RingControl {
  RingIndex producer;
  RingIndex consumer;
};
static_assert(sizeof(RingControl) == 2 * kCacheLine);

// Where a ring lies in its memory, a memfd. The daemon chooses it and tells the shim in its answer
// (abi/command_records.h).
struct RingLayout {
  std::uint64_t control_offset;  // of the RingControl, from the start of that
  std::uint64_t entries_offset;  // of entry 0
  std::uint32_t entries;         // a power of two
  std::uint32_t stride;          // bytes between entries, a multiple of 16
};
static_assert(sizeof(RingLayout) == 24);

}  // namespace uroce::abi
