// The services of a daemon, started once its card exists: the programs' server, metrics, the pid
// file, the watchdog.

#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "base/system_error.h"
#include "control/reports/status_client.h"
#include "control/start/daemon.h"
#include "control/start/notify.h"

namespace uroce::control {
namespace {

// With fewer for programs, not even two of them can communicate.
constexpr std::uint64_t kDescriptorsMin = 16;
constexpr int kDescriptorsWanted = 1'024;

}  // namespace

// Reported here rather than to each program.
Status Daemon::check_descriptors() {
  const std::uint64_t left = card_->shares().maximum(Limit::kDescriptors);
  if (left >= kDescriptorsMin) {
    return ok();
  }
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return Error{EMFILE, "the daemon may have " + std::to_string(limit.rlim_max) +
                           " files open, which leaves too few for programs: let it have " +
                           std::to_string(kDescriptorsWanted) + " or more (ulimit -n)"};
}

Status Daemon::start_server() {
  reload_.emplace(given_, *card_, kernel_, ports_);
  connections_ = std::make_unique<cm_user::Service>(connection_host(*card_));
  sampler_.emplace(*card_);
  services_.emplace(Services{.card = *card_,
                             .connections = *connections_,
                             .kernel = kernel_,
                             .errors = errors_,
                             .paging = paging_.get(),
                             .addresses = addresses_ ? &*addresses_ : nullptr,
                             .watchdog = &watchdog_,
                             .sampler = &*sampler_,
                             .numbers_may_be_chosen = options_.console});
  if (Status spare = services_->helpers->start_spare(); !spare) {
    return spare;
  }
  auto server = Server::listen(*services_, options_.socket, options_.socket_mode);
  if (!server) {
    return server.error();
  }
  server_ = std::move(*server);
  return ok();
}

// Before privileges are dropped: the port may be a privileged one.
Status Daemon::start_metrics() {
  if (options_.metrics.empty()) {
    return ok();
  }
  auto metrics = MetricsServer::start(options_.metrics,
                                      [socket = options_.socket] { return fetch_status(socket); });
  if (!metrics) {
    return metrics.error();
  }
  metrics_ = std::move(*metrics);
  return ok();
}

// Called once the socket is ours, so that a second daemon doesn't overwrite the first one's PID.
Status Daemon::write_pid_file() {
  if (options_.pid_file.empty()) {
    return ok();
  }
  errno = 0;
  std::ofstream file(options_.pid_file);
  file << ::getpid() << '\n';
  file.close();
  if (!file) {
    return system_error(("can't write the pid file " + options_.pid_file).c_str());
  }
  pid_written_ = true;
  return ok();
}

Status Daemon::start_watchdog() {
  watchdog_.watch("the control thread", server_->heartbeat());
  for (std::uint32_t worker = 0; worker < engine_->workers(); ++worker) {
    watchdog_.watch("worker " + std::to_string(worker), engine_->heartbeat(worker));
  }
  watchdog_.watch("the fault thread", paging_->fault_heartbeat());
  watchdog_.watch("the invalidation thread", paging_->invalidation_heartbeat());
  watchdog_.watch("the flush thread", paging_->flush_heartbeat(), Watchdog::Need::kMayBeLate);
  watchdog_.at_each_check([this] { sampler_->check(); });
  return watchdog_.start(notify_alive, notify_alive_interval());
}

}  // namespace uroce::control
