#pragma once

// Answers Prometheus' scrapes in a thread of its own. It asks the control thread for its report
// over the daemon's socket, as `uroce status` does, and keeps what it got for a second.

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
  // Of each scrape; others of the same moment share it.
  static constexpr Duration kReportAge = kNanosecondsPerSecond;
  static constexpr unsigned kConnectionsMax = 64;
  static constexpr unsigned kConnectionSecondsMax = 10;  // without a word

  // The text of the status report, called by the server's thread only.
  using Fetch = std::function<Result<std::string>()>;

  // `where` as parse_metrics_address() takes it.
  [[nodiscard]] static Result<std::unique_ptr<MetricsServer>> start(const std::string& where,
                                                                    Fetch fetch);
  // Waits for the thread, which may be waiting for fetch().
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  // A page, or why there is none. Called by the server's thread.
  Result<std::string> page(const MetricsQuery& wish);

 private:
  explicit MetricsServer(Fetch fetch) : fetch_(std::move(fetch)) {}

  const Fetch fetch_;
  std::string unix_path_;  // to be removed
  MHD_Daemon* daemon_ = nullptr;

  void fetch_anew();

  // The server's thread's: the report, why there is none, and its pages, by wish.
  nlohmann::ordered_json report_;
  std::optional<Error> failure_;
  std::array<std::string, 4> pages_;
  Time fetched_ = 0;
};

}  // namespace uroce::control
