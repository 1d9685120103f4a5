#pragma once

// Address vectors, as verbs and the daemon have them.

#include "control/protocol.h"
#include "verbs_shim/verbs.h"

namespace uroce::shim {

control::AddressRecord to_record(const ibv_ah_attr& from);
ibv_ah_attr to_verbs(const control::AddressRecord& from);

}  // namespace uroce::shim
