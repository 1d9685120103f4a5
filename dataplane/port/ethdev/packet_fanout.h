#pragma once

// Steering for af_packet ports: selects the socket, one per worker, to which the kernel delivers a
// frame.
//
// DPDK's net_af_packet puts its sockets into a fanout group that selects by a hash of addresses and
// UDP ports, so that a frame reaches its owner by chance. A socket can't leave its group, a group
// can't change its mode, and the driver of DPDK 22.11 has no argument for it. So while the driver
// opens its sockets, setsockopt(PACKET_FANOUT) is intercepted here, and creates a group that
// selects by a BPF program.

#include <cstdint>

namespace uroce {

// While it exists, packet sockets that this thread puts into a group get frames by owner. If the
// kernel refuses that, the requested mode applies, and workers forward frames to their owners.
class FanoutByOwner {
 public:
  explicit FanoutByOwner(std::uint16_t workers);
  ~FanoutByOwner();
  FanoutByOwner(const FanoutByOwner&) = delete;
  FanoutByOwner& operator=(const FanoutByOwner&) = delete;
};

}  // namespace uroce
