#pragma once

// The Linux capabilities without which a port can't be opened.

#include <string>
#include <string_view>

#include "base/capabilities.h"

namespace uroce {

// What opening this port takes, and opening it again when its interface is back. None for ports
// without a driver (loopback, udp, shm), and for drivers that join two programs (vhost, memif).
[[nodiscard]] Capabilities capabilities_to_open(std::string_view spec);

// For an error message of a port on a kernel interface that can't be opened: what the calling
// thread lacks of these, and what to do. Empty if it lacks none. (A card with an IOMMU may need
// fewer.)
[[nodiscard]] std::string missing_rights(std::string_view spec);

}  // namespace uroce
