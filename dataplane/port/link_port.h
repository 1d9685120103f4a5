#pragma once

// Two ports joined in memory: frames that one sends are received by the other, queue by queue. For
// tests, simulation and benches: deterministic, needs no EAL, and copies nothing (both ends use one
// pool).
//
// The wire between them holds a bounded number of frames; beyond it tx_burst() accepts none, like a
// full transmit ring. It has no delay; FaultyPort adds some.

#include <cstdint>
#include <memory>
#include <utility>

#include "dataplane/port/port.h"

namespace uroce {

struct LinkConfig {
  std::uint32_t mtu = 4'200;
  std::uint16_t queues = 1;
  std::uint32_t wire_entries = 512;       // frames in flight per direction; a power of two
  std::uint32_t frames = 4'096;           // in the pool
  std::uint32_t turn_burst = kTurnBurst;  // in both ends' PortInfo
  std::uint32_t turn_bursts = 1;
};

// MAC addresses are 02:00:00:00:00:01 and :02. Each end may be destroyed first.
[[nodiscard]] std::pair<std::unique_ptr<Port>, std::unique_ptr<Port>> make_link(
    const LinkConfig& config);

}  // namespace uroce
