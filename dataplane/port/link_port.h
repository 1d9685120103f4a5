#pragma once

// Two ports joined in memory: frames that one sends are received by the other, queue by queue. For
// tests, simulation and benches: deterministic, needs no EAL, and copies nothing (both ends use one
// pool).
//
// The wire between them holds a bounded number of frames; beyond it the sender is pushed back, as
// by a full transmit ring. Time doesn't pass on it; FaultyPort adds delay.

#include <cstdint>
#include <memory>
#include <utility>

#include "dataplane/port/port.h"

namespace uroce {

struct LinkConfig {
  std::uint32_t mtu = 4'200;
  std::uint16_t queues = 1;
  std::uint32_t wire_entries = 512;       // frames on their way in one direction; a power of two
  std::uint32_t frames = 4'096;           // of the pool
  std::uint32_t turn_burst = kTurnBurst;  // as both ends' PortInfo says
  std::uint32_t turn_bursts = 1;
};

// MAC addresses are 02:00:00:00:00:01 and :02. Each end may be destroyed first.
[[nodiscard]] std::pair<std::unique_ptr<Port>, std::unique_ptr<Port>> make_link(
    const LinkConfig& config);

}  // namespace uroce
