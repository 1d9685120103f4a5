#pragma once

// Hosts on one switch, in virtual time: a frame goes from its host's link through the queue in
// front of the receiving host's link, which may be the narrow one, drop and mark. For benches whose
// figures must not depend on the machine that they run on.

#include <cstdint>
#include <memory>
#include <vector>

#include "dataplane/port/faults/bottleneck.h"
#include "dataplane/port/port.h"

namespace uroce::bench {

struct FabricConfig {
  std::uint32_t hosts = 2;
  std::uint64_t host_rate = 10'000'000'000;          // bits a second, both ways
  BottleneckConfig narrow{};                         // towards host 0 instead
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

  // The port of a host, once each. MAC address: 02:00:00:00:00:NN with its number and 1. The fabric
  // outlives it.
  [[nodiscard]] std::unique_ptr<Port> port(std::uint32_t host);

  // The queue in front of host 0, for those who send without frames and for those who watch.
  [[nodiscard]] Bottleneck& narrow();
  [[nodiscard]] double draw();
  [[nodiscard]] std::uint64_t dropped() const;

 private:
  friend class FabricPort;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace uroce::bench
