#pragma once

// Why a peer refuses or ends a connection: the reasons of a REJ (IBTA vol. 1, 12.6.7.2).

#include <cstdint>
#include <string_view>

namespace uroce::control::cm {

// A peer may send unlisted codes, which have no name.
enum class RejectReason : std::uint16_t {
#define UROCE_REJECT(enumerator, code, name, explanation) enumerator = (code),
#include "control/cm/reject_reason.def"
#undef UROCE_REJECT
};

// "no_qp"; "unknown" for a code without a name.
std::string_view name_of(RejectReason reason);
// Its meaning, for a user.
std::string_view explanation_of(RejectReason reason);

}  // namespace uroce::control::cm
