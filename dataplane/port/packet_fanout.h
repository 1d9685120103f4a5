#pragma once

// Which of a packet port's sockets, one a worker, the kernel gives a frame.
//
// DPDK's net_af_packet puts its sockets into a fanout group that goes by a hash of addresses and
// UDP ports, so that a frame comes to its owner by luck. A socket can't leave its group, nor a
// group change its kind, and the driver of DPDK 22.11 has no argument for it. So while it opens
// them, its setsockopt(PACKET_FANOUT) is answered here, by a group that goes by the owner.

#include <cstdint>

namespace uroce {

// As long as it lives, packet sockets that this thread puts into a group are given frames by owner.
// Where the kernel refuses that, by what was asked for; workers then hand over what isn't theirs.
class FanoutByOwner {
 public:
  explicit FanoutByOwner(std::uint16_t workers);
  ~FanoutByOwner();
  FanoutByOwner(const FanoutByOwner&) = delete;
  FanoutByOwner& operator=(const FanoutByOwner&) = delete;
};

}  // namespace uroce
