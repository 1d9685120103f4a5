#pragma once

// Which attributes of a queue pair a command means (kModifyQp, and librdmacm's INIT_QP_ATTR);
// values as in enum ibv_qp_attr_mask.

#include <cstdint>

namespace uroce::abi {

enum VerbsMask : std::uint32_t {
  kVerbsState = 1U << 0U,
  kVerbsCurState = 1U << 1U,
  kVerbsSqdAsyncNotify = 1U << 2U,
  kVerbsAccessFlags = 1U << 3U,
  kVerbsPkeyIndex = 1U << 4U,
  kVerbsPort = 1U << 5U,
  kVerbsQkey = 1U << 6U,
  kVerbsAv = 1U << 7U,
  kVerbsPathMtu = 1U << 8U,
  kVerbsTimeout = 1U << 9U,
  kVerbsRetryCnt = 1U << 10U,
  kVerbsRnrRetry = 1U << 11U,
  kVerbsRqPsn = 1U << 12U,
  kVerbsMaxRdAtomic = 1U << 13U,
  kVerbsAltPath = 1U << 14U,
  kVerbsMinRnrTimer = 1U << 15U,
  kVerbsSqPsn = 1U << 16U,
  kVerbsMaxDestRdAtomic = 1U << 17U,
  kVerbsPathMigState = 1U << 18U,
  kVerbsCap = 1U << 19U,
  kVerbsDestQpn = 1U << 20U,
  kVerbsRateLimit = 1U << 25U,
};

}  // namespace uroce::abi
