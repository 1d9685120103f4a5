#pragma once

// The attributes for bringing the queue pair of a connection to INIT, RTR and RTS (IBTA vol. 1,
// 12.9.7), as negotiated by its messages. Members not listed for a state are 0 there.

#include <cstdint>

#include "control/cm/events.h"

namespace uroce::control::cm {

enum class QpState : std::uint8_t { kInit, kRtr, kRts };

struct QpAttributes {
  // INIT, and all others
  Route route;
  std::uint16_t pkey = 0xFFFF;
  Transport transport = Transport::kRc;
  // RTR
  std::uint8_t path_mtu = 0;  // code
  std::uint32_t dest_qpn = 0;
  std::uint32_t rq_psn = 0;
  std::uint8_t max_dest_rd_atomic = 0;
  std::uint8_t rnr_retry_count_peer = 0;  // the peer's RNR retries
  // RTS
  std::uint32_t sq_psn = 0;
  std::uint8_t timeout = 0;  // code
  std::uint8_t retry_cnt = 0, rnr_retry = 0;
  std::uint8_t max_rd_atomic = 0;
};

}  // namespace uroce::control::cm
