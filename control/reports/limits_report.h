#pragma once

// The JSON of `uroce limits`: each user's use and limit of every shared resource.

#include <string>

#include "base/sockets/record_socket.h"
#include "shares/shares.h"

namespace uroce::control {

// {"users": [{"uid": n, "user_namespace": n, "limits": [{"name", "used", "allowed", "maximum"}]}]}.
// Administrators see all users, others only themselves.
std::string limits_text(const Shares& shares, const Peer& reader, const Account& own);

}  // namespace uroce::control
