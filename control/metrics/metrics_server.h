#pragma once

// Serves Prometheus scrapes in its own thread. It fetches the status report over the daemon's
// socket, as `uroce status` does, and caches it for a second.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "control/metrics/metrics_text.h"

struct MHD_Connection;
struct MHD_Daemon;

namespace uroce::control {

class MetricsServer {
 public:
  // Maximum age of the report in a scrape; concurrent scrapes share it.
  static constexpr Duration kReportAge = kNanosecondsPerSecond;
  static constexpr unsigned kConnectionsMax = 64;
  static constexpr unsigned kConnectionSecondsMax = 10;  // of inactivity

  // Returns the text of the status report; called by the server's thread only.
  using Fetch = std::function<Result<std::string>()>;

  // `where`: see parse_metrics_address().
  [[nodiscard]] static Result<std::unique_ptr<MetricsServer>> start(const std::string& where,
                                                                    Fetch fetch);
  // Waits for the thread, which may be waiting for fetch().
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  // A page, or the error that prevents it. Called by the server's thread.
  Result<std::string> page(const MetricsQuery& query);

 private:
  explicit MetricsServer(Fetch fetch) : fetch_(std::move(fetch)) {}

  const Fetch fetch_;
  std::string unix_path_;  // removed at the end
  MHD_Daemon* daemon_ = nullptr;

  void fetch_anew();

  // Used by the server's thread only: the report, or the error instead, and its pages by
  // MetricsQuery.
  nlohmann::ordered_json report_;
  std::optional<Error> failure_;
  std::array<std::string, 4> pages_;
  Time fetched_ = 0;
};

}  // namespace uroce::control
