#pragma once

// Which of our addresses reaches a destination.

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

// The longest prefix that contains the destination wins, then an address near a router that leads
// there; on a loopback, the first address of its kind. A multicast group leaves by the first
// address of its kind. ENETUNREACH
Result<Source> choose_source(Devices& devices, const Gid& destination);

}  // namespace uroce::control::cm_user
