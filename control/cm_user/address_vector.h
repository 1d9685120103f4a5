#pragma once

// The address of an id's peer in the structures of the kernel's uverbs ABI: address vector and path
// record.

#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

#include "control/cm_user/id.h"

namespace uroce::control::cm_user {

inline constexpr std::uint8_t kHopLimit = 64;
inline constexpr std::uint16_t kPkeyDefault = 0xFFFF;

// The VLAN priority (PCP) of the id's packets; 0 without a VLAN, since an untagged frame carries
// none. REQUIRES: the id has a device.
std::uint8_t service_level(const Id& id);

// REQUIRES: the id has a device.
ib_uverbs_ah_attr address_vector(const Id& id, const Gid& remote);

// The path from the id's source to its destination. REQUIRES: the id has a device.
ib_user_path_rec path_record(const Id& id);

}  // namespace uroce::control::cm_user
