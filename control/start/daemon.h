#pragma once

// The complete daemon: EAL, ports, engine, card, services and server, started in that order and
// stopped in reverse; if one fails, none stays.

#include <memory>
#include <optional>
#include <vector>

#include "control/cm_user/service.h"
#include "control/commands/services.h"
#include "control/ip/kernel/kernel_addresses.h"
#include "control/metrics/metrics_server.h"
#include "control/paging/paging_service.h"
#include "control/reports/error_log.h"
#include "control/reports/watchdog.h"
#include "control/server/server.h"
#include "control/sessions/card.h"
#include "control/start/options.h"
#include "control/start/reload.h"
#include "dataplane/engine/engine.h"
#include "dataplane/port/make_port.h"
#include "mmu/key_table.h"
#include "mmu/quiescence.h"

namespace uroce::control {

class Daemon {
 public:
  // Starts everything that `options` asks for, including all threads; programs can connect when it
  // returns, and are served by run(). The error is one sentence for the user.
  static Result<std::unique_ptr<Daemon>> start(const DaemonOptions& options);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Drops every privilege that serving doesn't need (privileges.h, call_filter.h). After this the
  // process can't execute other programs.
  Status lock_down();

  // Serves until SIGTERM or SIGINT; SIGHUP reloads the configuration. REQUIRES: block_signals() was
  // called before start().
  void run();

  // Blocks the signals that run() waits for, and no others, in the calling thread and those it
  // starts later; ignores SIGPIPE and SIGXFSZ.
  static void block_signals();

 private:
  explicit Daemon(const DaemonOptions& options) : given_(options), options_(options) {}
  Status start_all();
  [[nodiscard]] Status make_socket_folder() const;
  Status start_ports();
  static Status take_interface_addresses(DaemonPort* wanted);
  [[nodiscard]] PortOptions port_options(const DaemonPort& wanted) const;
  Status start_engine();
  Status add_devices();
  Status check_descriptors();
  Status add_interface(std::uint32_t index, const DaemonPort& wanted);
  Status follow_addresses();
  Status start_server();
  Status start_metrics();
  Status write_pid_file();
  void log_start() const;
  Status start_watchdog();

  // True: stop.
  bool on_signal();
  void reload();

  const DaemonOptions given_;  // options_ also has the addresses of followed interfaces
  DaemonOptions options_;
  UniqueFd signals_;
  bool eal_started_ = false;
  bool pid_written_ = false;
  std::vector<std::unique_ptr<Port>> ports_;
  SealedMemory status_;
  std::unique_ptr<Quiescence> quiescence_;
  std::unique_ptr<KeyTable> keys_;
  std::unique_ptr<PagingQueues> paging_queues_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<PagingService> paging_;
  std::unique_ptr<Card> card_;
  KernelAddresses kernel_;
  std::optional<AddressFollower> addresses_;  // for ports that follow an interface's addresses
  ErrorLog errors_;
  std::unique_ptr<cm_user::Service> connections_;
  std::optional<Sampler> sampler_;
  std::optional<Services> services_;
  std::optional<Reload> reload_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<MetricsServer> metrics_;
  Watchdog watchdog_;
};

}  // namespace uroce::control
