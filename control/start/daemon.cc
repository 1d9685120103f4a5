#include "control/start/daemon.h"

#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "base/memory/memory_reserve.h"
#include "base/sockets/record_socket.h"
#include "base/sockets/socket_path.h"
#include "control/ip/kernel/interface_addresses.h"
#include "control/ip/kernel/kernel_interface.h"
#include "control/reports/telemetry.h"
#include "control/sessions/card_limits.h"
#include "control/start/clean_environment.h"
#include "control/start/device_node.h"
#include "control/start/privileges.h"
#include "dataplane/port/ethdev/eal.h"
#include "dataplane/port/faults/faulty_port.h"
#include "dataplane/port/udp/udp_spec.h"
#include "mmu/copies/copy.h"

namespace uroce::control {
namespace {

sigset_t awaited_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  return signals;
}

// Each program's channels, sockets and events take descriptors.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
}

// ", GID 1 10.0.0.1/24, GID 2 fd00::1/64".
std::string chosen_addresses(const GidTable& gids) {
  std::string text;
  for (std::size_t index = 1; index < gids.entries().size(); ++index) {
    if (gids.find(static_cast<std::uint32_t>(index)) != nullptr) {
      text += ", GID " + std::to_string(index) + " " + to_string(gids.entries()[index]);
    }
  }
  return text;
}

// Rings and frames are created without error handling, so too small a limit on address space
// (ulimit -v, ulimit -d) is detected beforehand.
bool has_room_to_begin() {
  constexpr std::size_t kBytes = 64U << 20U;
  void* const room = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return room != MAP_FAILED && ::munmap(room, kBytes) == 0;
}

}  // namespace

void Daemon::block_signals() {
  // The parent may have blocked other signals, which are needed to reach threads (every_thread.h).
  const sigset_t signals = awaited_signals();
  ::pthread_sigmask(SIG_SETMASK, &signals, nullptr);
  // Programs, which hold the other ends of our sockets, and the peers of shared-memory ports (whose
  // drivers write to sockets) may vanish at any time. That must give EPIPE, not kill the daemon.
  (void)::signal(SIGPIPE, SIG_IGN);
  // With a limit on file sizes (ulimit -f), writing gives an error with a message instead of a
  // signal.
  (void)::signal(SIGXFSZ, SIG_IGN);
}

Result<std::unique_ptr<Daemon>> Daemon::start(const DaemonOptions& options) {
  std::unique_ptr<Daemon> daemon(new Daemon(options));
  if (Status status = daemon->start_all(); !status) {
    return status.error();
  }
  return Result<std::unique_ptr<Daemon>>(std::move(daemon));
}

Status Daemon::start_all() {
  const sigset_t signals = awaited_signals();
  signals_ = UniqueFd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_.valid()) {
    return system_error("can't wait for signals");
  }
  // Checked before anything is started: the result must not depend on a port that the other daemon
  // uses.
  if (connect_to(options_.socket)) {
    return Error{EADDRINUSE, "another uroced already listens on " + options_.socket +
                                 "; stop it, or give this one another --socket"};
  }
  if (Status status = make_socket_folder(); !status) {
    return status;
  }
  raise_descriptor_limit();
  install_copy_guard();
  if (!hold_memory_reserve() || !has_room_to_begin()) {
    return Error{ENOMEM,
                 "the daemon can't reserve the memory that it starts with: raise its limit (ulimit "
                 "-v, ulimit -d)"};
  }
  for (const auto step : {&Daemon::start_ports, &Daemon::start_engine, &Daemon::add_devices,
                          &Daemon::check_descriptors, &Daemon::follow_addresses,
                          &Daemon::start_server, &Daemon::start_metrics, &Daemon::write_pid_file}) {
    if (Status status = (this->*step)(); !status) {
      return status;
    }
  }
  // After everything else, so that a daemon that doesn't start prints only the reason.
  if (Status status = paging_->start(); !status) {
    return status;
  }
  if (Status status = start_watchdog(); !status) {
    return status;
  }
  log_start();
  return ok();
}

// A missing folder in a user's option is the user's error.
Status Daemon::make_socket_folder() const {
  if (options_.socket == kSocketDefault) {
    ::mkdir(kSystemFolder, 0755);
  } else if (options_.socket == user_socket()) {
    const auto made = make_private_folder();
    return made ? ok() : Status(made.error());
  }
  return ok();
}

void Daemon::log_start() const {
  for (const Device& device : card_->devices()) {
    const PortInfo info = device.port().info();
    spdlog::info("{} is {}, {}, MTU {}, path MTU {}{}", device.name(), info.name,
                 to_string(info.mac), info.mtu, mtu_bytes(device.active_mtu_code()),
                 chosen_addresses(device.gids()));
    if (!info.trouble.empty()) {
      spdlog::warn("{}: {}", device.name(), info.trouble);
    }
  }
  spdlog::info("listening on {}", options_.socket);
}

PortOptions Daemon::port_options(const DaemonPort& wanted) const {
  // A udp port uses its interface's MTU; other ports have no such value.
  const bool as_large_as_can_be = is_udp_spec(wanted.spec) && !wanted.mtu_chosen;
  PortOptions options{.mtu = as_large_as_can_be ? kPortMtuMax : wanted.mtu,
                      .queues = static_cast<std::uint16_t>(options_.workers)};
  for (const IpPrefix& entry : wanted.addresses) {
    options.addresses.push_back(entry.address);
  }
  options.number = static_cast<std::uint8_t>(
      std::ranges::count_if(ports_, [](const auto& port) { return port->info().loops_back; }));
  return options;
}

// udp,iface=NAME: the port starts with the addresses that the interface has now.
Status Daemon::take_interface_addresses(DaemonPort* wanted) {
  if (!is_udp_spec(wanted->spec)) {
    return ok();
  }
  const auto spec = parse_udp_spec(wanted->spec);
  if (!spec) {
    return spec.error();
  }
  if (spec->interface.empty()) {
    return ok();
  }
  const auto found = interface_addresses(spec->interface);
  if (!found) {
    return Error{found.error().code, "port " + wanted->spec + ": " + found.error().message};
  }
  wanted->addresses = *found;
  return ok();
}

Status Daemon::start_ports() {
  EalOptions eal;
  eal.workers = options_.workers;
  eal.telemetry = options_.telemetry;
  eal.extra = options_.eal_arguments;
  for (const DaemonPort& port : options_.ports) {
    if (needs_eal(port.spec)) {
      eal.ports.push_back(port.spec);
    }
  }
  // The built-in loopback and udp ports don't need the EAL, and start faster without it.
  if (!eal.ports.empty() || !eal.extra.empty() || eal.telemetry) {
    load_libibverbs_of_system();
    if (Status status = start_eal(eal); !status) {
      return status;
    }
    eal_started_ = true;
    if (options_.telemetry) {
      if (Status status = register_telemetry(options_.socket); !status) {
        return status;
      }
    }
  }
  for (DaemonPort& wanted : options_.ports) {
    if (Status status = take_interface_addresses(&wanted); !status) {
      return status;
    }
    auto port = make_port(wanted.spec, port_options(wanted));
    if (!port) {
      return port.error();
    }
    if (wanted.faults.any()) {
      ports_.push_back(std::make_unique<FaultyPort>(std::move(*port), wanted.faults));
    } else {
      ports_.push_back(std::move(*port));
    }
  }
  return ok();
}

Status Daemon::start_engine() {
  auto status = SealedMemory::create("uroce-status", options_.workers * kStatusStride,
                                     SealedMemory::Writers::kDaemonOnly);
  if (!status) {
    return status.error();
  }
  status_ = std::move(*status);
  Engine::Config config;
  config.workers = options_.workers;
  config.idle = options_.idle;
  config.recovery = options_.recovery;
  // Go-back-N is chosen to observe it on frames, so direct copies are off.
  config.direct = options_.direct && options_.recovery == Recovery::kSelective;
  for (std::uint32_t worker = 0; worker < options_.workers; ++worker) {
    config.status.push_back(
        reinterpret_cast<abi::WorkerStatus*>(status_.data() + worker * kStatusStride));
  }
  std::vector<Port*> ports;
  for (const auto& port : ports_) {
    ports.push_back(port.get());
  }
  quiescence_ = std::make_unique<Quiescence>();
  quiescence_->on_overdue([] {
    spdlog::error(
        "a worker hangs: for {} s it hasn't released what it looked up, so memory that is "
        "deregistered or taken away stays mapped here",
        Quiescence::kTimeout / kNanosecondsPerSecond);
  });
  keys_ = std::make_unique<KeyTable>(*quiescence_);
  paging_queues_ = std::make_unique<PagingQueues>(
      options_.workers, [this](std::uint32_t worker) { engine_->wake(worker); });
  config.paging = paging_queues_.get();
  engine_ = std::make_unique<Engine>(config, std::move(ports), *keys_, *quiescence_);
  paging_ = std::make_unique<PagingService>(*paging_queues_, *quiescence_, options_.paging);
  return engine_->start();
}

Status Daemon::add_devices() {
  card_ = std::make_unique<Card>(*engine_, *keys_, status_);
  card_->set_congestion(options_.congestion);
  card_->set_measures_latency(options_.latency);
  card_->shares().set_limits(options_.limits);
  for (std::size_t i = 0; i < ports_.size(); ++i) {
    const DaemonPort& wanted = options_.ports[i];
    if (Status status = add_interface(static_cast<std::uint32_t>(i), wanted); !status) {
      return status;
    }
    card_->add_device(static_cast<std::uint16_t>(i), *ports_[i], wanted.addresses,
                      options_.identity);
    for (const IpPrefix& entry : wanted.addresses) {
      if (Status status = kernel_.bind_roce_port(card_->devices().back(), entry.address); !status) {
        return Error{status.error().code, "port " + wanted.spec + ": " + status.error().message};
      }
    }
    card_->devices().back().set_gateways(Gateways(wanted.routes));
    card_->devices().back().announce();
    make_device_node(card_->devices().back().name());
  }
  return ok();
}

// Before its device, which looks for the interface that has its addresses.
Status Daemon::add_interface(std::uint32_t index, const DaemonPort& wanted) {
  if (wanted.interface.empty()) {
    return ok();
  }
  auto made = KernelInterface::create(wanted.interface, wanted.mtu);
  if (!made) {
    return made.error();
  }
  for (const IpPrefix& entry : wanted.addresses) {
    if (Status status = (*made)->add(entry.address); !status) {
      return status;
    }
  }
  kernel_.set_interface(index, std::move(*made));
  return ok();
}

Status Daemon::follow_addresses() {
  auto follower = AddressFollower::open(*card_, kernel_);
  if (!follower) {
    return follower.error();
  }
  for (std::uint32_t i = 0; i < options_.ports.size(); ++i) {
    const std::string& spec = options_.ports[i].spec;
    const auto parsed = is_udp_spec(spec) ? parse_udp_spec(spec) : UdpSpec{};
    if (parsed && !parsed->interface.empty()) {
      follower->follow(i, parsed->interface);
    }
  }
  if (follower->follows_any()) {
    addresses_.emplace(std::move(*follower));
    addresses_->on_change();  // changes since they were listed
  }
  return ok();
}

Status Daemon::lock_down() {
  if (Status kept = keep_only(needed_capabilities(options_)); !kept) {
    return kept;
  }
  const CallFilter mode = options_.call_filter;
  Status filtered =
      filter_all_threads(mode, eal_started_ ? CallList::kServiceWithDrivers : CallList::kService);
  // Workers of DPDK's ports run their drivers, which reopen sockets.
  for (std::uint32_t worker = 0; worker < options_.workers && filtered && !eal_started_; ++worker) {
    engine_->call_on_thread(worker, [mode, &filtered](Worker& /*worker*/) {
      filtered = filter_this_thread(mode, CallList::kWorker);
    });
  }
  return filtered;
}

void Daemon::run() {
  server_->run(signals_.get(), [this] { return on_signal(); });
  spdlog::info("stopping");
}

bool Daemon::on_signal() {
  signalfd_siginfo signal{};
  while (::read(signals_.get(), &signal, sizeof(signal)) == sizeof(signal)) {
    if (signal.ssi_signo != SIGHUP) {
      return true;
    }
    reload();
  }
  return false;
}

// Whoever sent the signal waits for these lines, so a level that begins with this reload doesn't
// hide them, and none hides that there was no reload.
void Daemon::reload() {
  const auto before = spdlog::get_level();
  const auto changes = reload_->read_again();
  const auto now = spdlog::get_level();
  spdlog::set_level(std::min(now, changes ? before : spdlog::level::err));
  if (!changes) {
    spdlog::error("SIGHUP: nothing is changed: {}", changes.error().message);
  } else {
    for (const std::string& line : *changes) {
      spdlog::warn("SIGHUP: {}", line);
    }
  }
  spdlog::set_level(now);
}

Daemon::~Daemon() {
  watchdog_.stop();
  server_.reset();   // ends the sessions while workers still run
  metrics_.reset();  // after the server: a scrape that waits for it has been refused
  connections_.reset();
  addresses_.reset();
  card_.reset();
  kernel_ = {};
  if (engine_) {
    engine_->stop();
  }
  paging_.reset();  // it wakes workers
  engine_.reset();
  ports_.clear();
  if (eal_started_) {
    stop_eal();
  }
  if (pid_written_) {
    ::unlink(options_.pid_file.c_str());
  }
}

}  // namespace uroce::control
