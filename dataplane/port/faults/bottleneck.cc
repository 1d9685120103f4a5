#include "dataplane/port/faults/bottleneck.h"

#include <algorithm>

namespace uroce {

std::uint64_t Bottleneck::bytes_in(std::uint64_t ticks) const {
  const double seconds = static_cast<double>(ticks) / static_cast<double>(kTicksPerSecond);
  return static_cast<std::uint64_t>(seconds * static_cast<double>(config_.rate) /
                                    static_cast<double>(kBitsPerByte));
}

std::uint64_t Bottleneck::backlog(Time now) const {
  const std::uint64_t free_at = free_at_.load(std::memory_order_relaxed);
  return free_at <= now * kTicks ? 0 : bytes_in(free_at - now * kTicks);
}

bool Bottleneck::marks(std::uint64_t backlog, double draw) const {
  if (config_.kmax == 0 || backlog <= config_.kmin) {
    return false;
  }
  if (backlog > config_.kmax) {
    return true;
  }
  const double part = static_cast<double>(backlog - config_.kmin) /
                      static_cast<double>(config_.kmax - config_.kmin);
  return draw < part * config_.pmax;
}

Bottleneck::Fate Bottleneck::admit(std::uint32_t bytes, bool ecn_capable, double draw, Time now) {
  // No overflow: 9,018 bytes take 1.2e15 ticks at 1 kb/s, and lower rates aren't accepted
  // (faults.cc).
  const std::uint64_t takes = bytes * kBitsPerByte * kTicksPerSecond / config_.rate;
  const std::uint64_t arrives = now * kTicks;
  std::uint64_t free_at = free_at_.load(std::memory_order_relaxed);
  Fate fate;
  std::uint64_t departs = 0;
  do {
    const std::uint64_t backlog = free_at <= arrives ? 0 : bytes_in(free_at - arrives);
    if (backlog + bytes > config_.queue) {
      return {.dropped = true};
    }
    fate.marked = ecn_capable && marks(backlog + bytes, draw);
    departs = std::max(free_at, arrives) + takes;
  } while (!free_at_.compare_exchange_weak(free_at, departs, std::memory_order_relaxed));
  fate.departs = (departs + kTicks - 1) / kTicks;
  return fate;
}

}  // namespace uroce
