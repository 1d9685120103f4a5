#pragma once

// Which transitions a queue pair may make, and which attributes each requires and allows, by type:
// IBTA vol. 1, 10.3.1 and tables 91 to 95 (11.2.5.2), as Linux checks them. A table, so that it can
// be read and tested whole.

#include <cstdint>

#include "base/result.h"
#include "dataplane/qp/attributes.h"

namespace uroce::control {

// Attribute masks as programs send them; values as in enum ibv_qp_attr_mask.
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

struct TransitionRule {
  std::uint32_t required = 0;
  std::uint32_t optional = 0;  // kVerbsState is always allowed
};

// nullptr: this transition doesn't exist.
const TransitionRule* transition_rule(QpType type, QpState from, QpState to);

// May a queue pair of this type, in state `from`, be modified to `to` with the attributes in
// `mask`? EINVAL with a sentence that names the missing or forbidden attributes.
Status check_transition(QpType type, QpState from, QpState to, std::uint32_t mask);

const char* name_of(QpState state);
const char* name_of(QpType type);

}  // namespace uroce::control
