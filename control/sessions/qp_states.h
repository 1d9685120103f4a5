#pragma once

// Which transitions a queue pair may make, and which attributes each requires and allows, by type:
// IBTA vol. 1, 10.3.1 and tables 91 to 95 (11.2.5.2), as Linux checks them. A table, so that it can
// be read and tested whole.

#include <cstdint>

#include "base/result.h"
#include "dataplane/qp/attributes.h"

namespace uroce::control {

struct TransitionRule {
  // Bits of abi::VerbsMask.
  std::uint32_t required = 0;
  std::uint32_t optional = 0;  // kVerbsState is always allowed
};

// nullptr: this transition doesn't exist.
const TransitionRule* transition_rule(QpType type, QpState from, QpState to);

// Checks that a queue pair of this type may be modified from `from` to `to` with the attributes in
// `mask`. EINVAL with a sentence that names the missing or forbidden attributes.
Status check_transition(QpType type, QpState from, QpState to, std::uint32_t mask);

const char* name_of(QpState state);
const char* name_of(QpType type);

}  // namespace uroce::control
