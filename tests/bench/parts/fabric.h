#pragma once

// Hosts on one switch, in virtual time: a frame goes from its host's link through the queue in
// front of the receiving host's link, which may be the bottleneck, drop and mark. For benches whose
// figures must not depend on the machine.

#include <cstdint>
#include <memory>
#include <vector>

#include "dataplane/port/faults/bottleneck.h"
#include "dataplane/port/port.h"

namespace uroce::bench {

struct FabricConfig {
  std::uint32_t hosts = 2;
  std::uint64_t host_rate = 10'000'000'000;          // bits per second, both ways
  BottleneckConfig narrow{};                         // used towards host 0
  Duration delay = 25 * kNanosecondsPerMicrosecond;  // one way
  std::uint32_t frames = 16'384;                     // of the pool
};

class Fabric {
 public:
  static constexpr std::uint32_t kHostsMax = 250;

  explicit Fabric(const FabricConfig& config);
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  // The port of a host; call once for each. MAC address: 02:00:00:00:00:NN, NN being its number
  // plus 1. The fabric outlives it.
  [[nodiscard]] std::unique_ptr<Port> port(std::uint32_t host);

  // The queue in front of host 0, for senders without frames and for observers.
  [[nodiscard]] Bottleneck& narrow();
  [[nodiscard]] double draw();
  [[nodiscard]] std::uint64_t dropped() const;

 private:
  friend class FabricPort;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace uroce::bench
