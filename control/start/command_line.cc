// The flags of uroced (CLI11). Those of a port (--ip, --mtu and so on) belong to the --port before
// them; those in front of the first --port belong to it, so with one port the order doesn't matter.

#include <CLI/CLI.hpp>
#include <cerrno>
#include <deque>
#include <functional>
#include <map>

#include "base/sockets/socket_path.h"
#include "base/version.h"
#include "control/start/options.h"

namespace uroce::control {
namespace {

// One flag and the action for each of its values, in command-line order.
struct Flag {
  CLI::Option* option;
  std::function<Status(const std::string&)> take;
};

Result<std::int64_t> number(const std::string& text) {
  std::int64_t value = 0;
  if (!CLI::detail::lexical_cast(text, value)) {
    return Error{EINVAL, "'" + text + "' isn't a number"};
  }
  return value;
}

// Turns a function that sets an integer into one that parses a string.
template <typename Set, typename Target>
auto numeric(Set set, Target target) {
  return [set, target](const std::string& text) -> Status {
    const auto parsed = number(text);
    return parsed ? set(*parsed, target()) : Status(parsed.error());
  };
}

class Parser {
 public:
  explicit Parser(DaemonOptions* options) : options_(*options) {
    app_.name("uroced");
    app_.footer(
        "--ip, --route, --mtu, --interface and --faults apply to the --port before them. Devices "
        "are named uroce0, uroce1 ... in the order of ports.\n"
        "Arguments after -- are passed to DPDK's EAL.\n\nExample:\n"
        "  uroced --port loopback --ip 10.0.0.1/24");
    add_port_flags();
    add_daemon_flags();
  }

  Result<std::string> parse(std::vector<std::string> arguments);
  [[nodiscard]] bool only_checks() const { return only_checks_; }

 private:
  void add_port_flags();
  void add_daemon_flags();
  Status take_in_order();
  void add(const std::string& name, const std::string& type, const std::string& help,
           std::function<Status(const std::string&)> take) {
    CLI::Option* option = app_.add_option(name, ignored_.emplace_back(), help)->type_name(type);
    option->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    option->allow_extra_args(false);
    flags_.push_back({option, std::move(take)});
  }
  DaemonPort* port() {
    if (ports_.empty()) {
      ports_.emplace_back();
    }
    return &ports_.back();
  }
  Status begin_port(const std::string& spec) {
    if (ports_.empty() || !ports_.back().spec.empty()) {
      ports_.emplace_back();
    }
    ports_.back().spec = spec;
    return ok();
  }

  DaemonOptions& options_;
  CLI::App app_{"The uroce daemon: a RoCEv2 network card made of software."};
  std::deque<std::vector<std::string>> ignored_;
  std::vector<Flag> flags_;
  std::vector<DaemonPort> ports_;
  std::string config_file_;
  bool only_checks_ = false;
};

void Parser::add_port_flags() {
  const auto port_target = [this] { return port(); };
  add("--port", "PORT",
      "loopback, udp, shm,path=FILE, a PCI address, or a DPDK vdev string; repeat for more ports",
      [this](const std::string& text) { return begin_port(text); });
  add("--ip", "ADDRESS/N",
      "IPv4 or IPv6 address of the port, optionally followed by @VLAN; repeat for more",
      [this](const std::string& text) { return value::add_address(text, port()); });
  add("--route", "NET/N=GATEWAY", "send packets for this network to a router; repeat for more",
      [this](const std::string& text) { return value::add_route(text, port()); });
  add("--mtu", "BYTES",
      "largest IP packet of the port (1500; udp: its interface's); 4200 carries path MTU 4096",
      numeric(value::set_mtu, port_target));
  add("--interface", "NAME", "create a tap interface with the port's addresses, for getifaddrs",
      [this](const std::string& text) { return value::set_interface(text, port()); });
  add("--faults", "SPEC",
      "simulate a bad network: loss=0.01,dup=0.01,reorder=0.02,corrupt=0.001,seed=7; a bottleneck: "
      "rate=10gbit,queue=400k,kmin=100k,kmax=400k,pmax=0.2,delay=50us; an event for one packet: "
      "at=qp:0/psn:4/iter:2:drop",
      [this](const std::string& text) { return value::set_faults(text, port()); });
}

void Parser::add_daemon_flags() {
  const auto target = [this] { return &options_; };
  const auto set = [](std::string* string) {
    return [string](const std::string& text) {
      *string = text;
      return ok();
    };
  };
  add("--socket", "PATH", "the socket for programs (" + daemon_socket() + ")",
      set(&options_.socket));
  add("--socket-mode", "MODE", "permissions of the socket, as for chmod (0666: every local user)",
      [this](const std::string& text) { return value::set_socket_mode(text, &options_); });
  add("--workers", "N", "number of threads that process packets (1)",
      numeric(value::set_workers, target));
  add("--idle", "POLICY", "adaptive (default): sleep when idle; poll: never sleep",
      [this](const std::string& text) { return value::set_idle(text, &options_); });
  add("--recovery", "MODE",
      "selective (default): resend only lost packets; go-back-n: and all packets after them",
      [this](const std::string& text) { return value::set_recovery(text, &options_); });
  add("--direct", "on|off",
      "on (default): copy messages between queue pairs of one worker without frames; off: send "
      "them as frames",
      [this](const std::string& text) { return value::set_direct(text, &options_); });
  add("--latency", "on|off",
      "on (default): each queue pair measures the latency of one message at a time; off: none",
      [this](const std::string& text) { return value::set_latency(text, &options_); });
  add("--odp-resident-limit", "BYTES",
      "limit of resident on-demand memory (none); beyond it the least recently used is evicted",
      numeric(value::set_resident_limit, target));
  add("--odp-session-resident-limit", "BYTES", "the same for each program (none)",
      numeric(value::set_session_resident_limit, target));
  add("--congestion", "MODE",
      "dcqcn (default): senders reduce their rate on congestion notifications; delay: also on long "
      "round trips; none",
      [this](const std::string& text) { return value::set_congestion(text, &options_); });
  add("--cnp-interval", "US",
      "minimum interval between congestion notifications to a sender, in microseconds (50)",
      numeric(value::set_cnp_interval, target));
  add("--cnp-dscp", "N", "DSCP of congestion notifications (48)",
      numeric(value::set_cnp_dscp, target));
  add("--config", "FILE",
      "a TOML file with these options' names as keys; command line options override it",
      set(&config_file_));
  add("--log-level", "LEVEL", "trace, debug, info (default), warning, error or off",
      [this](const std::string& text) { return value::set_log_level(text, &options_); });
  add("--seccomp", "MODE",
      "system calls that a running daemon never needs: on (refused; default), kill, log or off",
      [this](const std::string& text) { return value::set_call_filter(text, &options_); });
  add("--ready-fd", "N", "write a byte to descriptor N when programs can connect",
      [this](const std::string& text) -> Status {
        const auto parsed = number(text);
        if (!parsed || *parsed < 0 || *parsed > 1'000'000) {
          return Error{EINVAL, "'" + text + "' isn't a descriptor"};
        }
        options_.ready_descriptor = static_cast<int>(*parsed);
        return ok();
      });
  add("--pid-file", "FILE", "write the process id to this file", set(&options_.pid_file));
  add("--metrics", "ADDRESS:PORT|unix:PATH",
      "serve metrics for Prometheus there, to anyone who can connect",
      [this](const std::string& text) { return value::set_metrics(text, &options_); });
  add("--vendor-id", "N", "the vendor id that ibv_query_device reports",
      numeric(value::set_vendor_id, target));
  add("--vendor-part-id", "N", "the part id that ibv_query_device reports (26428)",
      numeric(value::set_vendor_part_id, target));
  app_.add_flag("--console", options_.console,
                "read debugging commands from standard input, exit at its end (uroce-console)");
  app_.add_flag("--telemetry", options_.telemetry, "open DPDK's telemetry socket");
  app_.add_flag("--check", only_checks_, "check the options and the configuration file, and exit");
  app_.set_version_flag("--version", std::string("uroced ") + kReleaseVersion);
}

// CLI11 groups the values by flag; their order across flags is in parse_order().
Status Parser::take_in_order() {
  std::map<const CLI::Option*, std::size_t> taken;
  for (const CLI::Option* option : app_.parse_order()) {
    const auto flag = std::find_if(flags_.begin(), flags_.end(),
                                   [&](const Flag& f) { return f.option == option; });
    if (flag == flags_.end()) {
      continue;
    }
    const std::string& text = option->results()[taken[option]++];
    if (Status status = flag->take(text); !status) {
      return Error{EINVAL, option->get_name() + ": " + status.error().message};
    }
  }
  return ok();
}

Result<std::string> Parser::parse(std::vector<std::string> arguments) {
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 expects them
  try {
    app_.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    return app_.help();
  } catch (const CLI::CallForVersion&) {
    return app_.version() + "\n";
  } catch (const CLI::ParseError& error) {
    return Error{EINVAL, std::string(error.what()) + "; see uroced --help"};
  }
  // The file first, so that flags win.
  const CLI::Option* config = app_.get_option("--config");
  if (config->count() != 0) {
    if (Status status = read_config_file(config->results().back(), &options_); !status) {
      return status.error();
    }
  }
  if (Status status = take_in_order(); !status) {
    return status.error();
  }
  if (!ports_.empty()) {
    options_.ports = ports_;
  }
  return std::string();
}

}  // namespace

Result<CommandLine> parse_command_line(int argc, const char* const* argv, const KnownUsers& known) {
  std::vector<std::string> ours(argv + 1, argv + argc);
  CommandLine line;
  line.options.command_line.assign(argv, argv + argc);
  line.options.known_users = known;
  const auto separator = std::find(ours.begin(), ours.end(), "--");
  const std::vector<std::string> eal(separator == ours.end() ? separator : separator + 1,
                                     ours.end());
  ours.erase(separator, ours.end());
  Parser parser(&line.options);
  auto text = parser.parse(std::move(ours));
  if (!text) {
    return text.error();
  }
  line.text = std::move(*text);
  if (!line.text.empty()) {
    return line;
  }
  if (!eal.empty()) {
    line.options.eal_arguments = eal;
  }
  if (line.options.socket.empty()) {
    line.options.socket = daemon_socket();
  }
  if (Status status = check_options(line.options); !status) {
    return status.error();
  }
  if (parser.only_checks()) {
    line.text = "The options are right.\n";
  }
  return line;
}

}  // namespace uroce::control
