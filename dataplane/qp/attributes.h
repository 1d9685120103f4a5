#pragma once

// The attributes of a queue pair, as control hands them over once it has validated a transition
// (control/sessions/qp_states.h) and resolved the path. Units are those of the wire: codes, not
// microseconds.

#include <cstdint>

#include "abi/operations.h"
#include "dataplane/wire/path.h"

namespace uroce {

// Values as in enum ibv_qp_state.
enum class QpState : std::uint8_t { kReset = 0, kInit, kRtr, kRts, kSqd, kSqe, kErr };

using abi::QpType;

struct QpAttributes {
  QpState state = QpState::kReset;
  std::uint32_t path_mtu = 1024;  // bytes: 256, 512, 1024, 2048, 4096
  std::uint32_t qkey = 0;
  std::uint32_t rq_psn = 0;  // 24 bits
  std::uint32_t sq_psn = 0;
  std::uint32_t dest_qpn = 0;
  std::uint32_t access = 0;  // AccessFlags for remote operations
  std::uint16_t pkey_index = 0;
  std::uint8_t max_rd_atomic = 0;       // reads and atomics this side may have outstanding
  std::uint8_t max_dest_rd_atomic = 0;  // that it answers, rounded up to a power of two
  std::uint8_t min_rnr_timer = 0;       // code (IBTA vol. 1, 9.7.5.2.8)
  std::uint8_t timeout = 0;             // code: 4.096 us << timeout; 0: none
  std::uint8_t retry_cnt = 0;           // 0..7
  std::uint8_t rnr_retry = 0;           // 0..6, 7: for ever
  bool sqd_async_notify = false;
  Path path{};
};

// Which members of a QpAttributes a modify carries.
enum QpAttributeMask : std::uint32_t {
  kQpMaskState = 1U << 0U,
  kQpMaskPathMtu = 1U << 1U,
  kQpMaskQkey = 1U << 2U,
  kQpMaskRqPsn = 1U << 3U,
  kQpMaskSqPsn = 1U << 4U,
  kQpMaskDestQpn = 1U << 5U,
  kQpMaskAccess = 1U << 6U,
  kQpMaskPkeyIndex = 1U << 7U,
  kQpMaskMaxRdAtomic = 1U << 8U,
  kQpMaskMaxDestRdAtomic = 1U << 9U,
  kQpMaskMinRnrTimer = 1U << 10U,
  kQpMaskTimeout = 1U << 11U,
  kQpMaskRetryCnt = 1U << 12U,
  kQpMaskRnrRetry = 1U << 13U,
  kQpMaskPath = 1U << 14U,
};

}  // namespace uroce
