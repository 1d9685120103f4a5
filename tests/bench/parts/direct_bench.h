#pragma once

// The cost of messages that need no frames: two queue pairs of one worker, beside plain copies of
// the same working set and, for comparison, libdeflate's CRC over it.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/time.h"
#include "tests/unit/engine/one_daemon.h"

namespace uroce::bench {

class DirectBench {
 public:
  // With `memory_bytes` at each end, and `entries` work requests outstanding. `measures`: with
  // latency histograms, as in the daemon.
  DirectBench(std::size_t memory_bytes, std::uint32_t entries, bool measures = true);

  // RC WRITEs of `length` bytes for about `round` of the thread's time. Returns messages per
  // second.
  double run(std::uint32_t length, Duration round);

  // Copies of `length` bytes from one end's memory to the other's, in the same order as run().
  // Returns nanoseconds per 4 KiB.
  double copy_ns_per_4k(std::uint32_t length, Duration round);
  // libdeflate's CRC-32 of the first end's memory, 4 KiB at a time.
  double libdeflate_ns_per_4k(Duration round);

 private:
  void start();  // a new pass through the memory
  void post(std::uint32_t length);
  std::uint32_t reap();
  std::size_t next(std::uint32_t length);

  std::uint32_t entries_;
  test::OneDaemon daemon_;
  std::uint32_t outstanding_ = 0;
  std::uint64_t posted_ = 0;
  std::size_t offset_ = 0;
};

}  // namespace uroce::bench
