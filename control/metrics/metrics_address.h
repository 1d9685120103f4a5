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

// EINVAL with a sentence: it is neither.
[[nodiscard]] Result<MetricsAddress> parse_metrics_address(const std::string& text);

// A listening socket there. A UNIX socket replaces one that nobody listens on any more; only its
// owner and his group may connect.
[[nodiscard]] Result<UniqueFd> listen_for_metrics(const MetricsAddress& address);

}  // namespace uroce::control
