#pragma once

// Converts address vectors between verbs and the daemon's records.

#include "abi/command_records.h"
#include "verbs_shim/objects/verbs.h"

namespace uroce::shim {

abi::AddressRecord to_record(const ibv_ah_attr& from);
ibv_ah_attr to_verbs(const abi::AddressRecord& from);

}  // namespace uroce::shim
