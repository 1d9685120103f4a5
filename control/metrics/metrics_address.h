#pragma once

// Where metrics are served: "127.0.0.1:9100", "[::1]:9100", "localhost:9100", or "unix:/path".

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace uroce::control {

struct MetricsAddress {
  std::string host, port;  // empty: a UNIX socket
  std::string path;
};

// EINVAL with a sentence.
[[nodiscard]] Result<MetricsAddress> parse_metrics_address(const std::string& text);

// Opens a listening socket. A UNIX socket replaces a stale one that nobody listens on; only its
// owner and group may connect.
[[nodiscard]] Result<UniqueFd> listen_for_metrics(const MetricsAddress& address);

}  // namespace uroce::control
