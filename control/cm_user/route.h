#pragma once

// Selects the source address and device for a destination.

#include "base/result.h"
#include "control/cm_user/endpoint.h"
#include "control/ip/device.h"

namespace uroce::control::cm_user {

struct Source {
  Device* device = nullptr;
  Gid address;
};

// The device that has this address. EADDRNOTAVAIL
Result<Source> find_source(Devices& devices, const Gid& address);

// The address with the longest prefix that contains the destination, else one in the subnet of a
// router to it; on a loopback port, and for a multicast group, the first address of the same
// family. ENETUNREACH
Result<Source> choose_source(Devices& devices, const Gid& destination);

}  // namespace uroce::control::cm_user
