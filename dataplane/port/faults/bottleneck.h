#pragma once

// A simulated bottleneck link with the queue of the switch in front of it: frames leave at its
// rate, frames that find the queue full are dropped, and above a queue length ECN-capable ones are
// marked CE, as in switches for RoCE (RED without averaging). Only times are kept, no frames: the
// caller holds each frame until it departs.
//
// Time is an argument, so a simulation is repeatable. Several queues of a port may share one; any
// thread may call.

#include <atomic>
#include <cstdint>

#include "base/time.h"

namespace uroce {

struct BottleneckConfig {
  std::uint64_t rate = 0;   // frame bits per second; 0: no bottleneck
  std::uint64_t queue = 0;  // bytes
  // Marking probability: 0 up to kmin bytes of queue, rising linearly to pmax at kmax, 1 beyond. 0,
  // 0: no marking.
  std::uint64_t kmin = 0, kmax = 0;
  double pmax = 0;

  bool operator==(const BottleneckConfig&) const = default;
};

class Bottleneck {
 public:
  explicit Bottleneck(const BottleneckConfig& config) : config_(config) {}

  struct Fate {
    bool dropped = false;
    bool marked = false;
    Time departs = 0;  // when its last bit has left
  };
  // A frame of `bytes` arrives. `draw`: random in [0, 1).
  Fate admit(std::uint32_t bytes, bool ecn_capable, double draw, Time now);

  // Bytes that wait or are being sent.
  [[nodiscard]] std::uint64_t backlog(Time now) const;

 private:
  // A frame of 64 bytes takes 5 ns at 100 Gb/s: whole nanoseconds would be too coarse.
  static constexpr std::uint64_t kTicks = 16;  // per nanosecond
  static constexpr std::uint64_t kBitsPerByte = 8;
  static constexpr std::uint64_t kTicksPerSecond = kTicks * kNanosecondsPerSecond;

  [[nodiscard]] std::uint64_t bytes_in(std::uint64_t ticks) const;
  [[nodiscard]] bool marks(std::uint64_t backlog, double draw) const;

  BottleneckConfig config_;
  // When all admitted frames will have departed, in ticks. Relaxed: there is no other shared state.
  std::atomic<std::uint64_t> free_at_{0};
};

}  // namespace uroce
