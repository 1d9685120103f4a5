#pragma once

// What `uroce limits` shows, as JSON: for each user how much he has, and may have, of everything
// that users share.

#include <string>

#include "base/sockets/record_socket.h"
#include "shares/shares.h"

namespace uroce::control {

// {"users": [{"uid": n, "user_namespace": n, "limits": [{"name", "used", "allowed", "maximum"}]}]}.
// Administrators are shown everybody, others themselves.
std::string limits_text(const Shares& shares, const Peer& reader, const Account& own);

}  // namespace uroce::control
