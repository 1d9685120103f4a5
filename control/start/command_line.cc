// The flags of uroced (CLI11). Those of a port (--ip, --mtu and so on) belong to the --port before
// them; those in front of the first --port belong to it, so with one port the order doesn't matter.

#include <CLI/CLI.hpp>
#include <cerrno>
#include <deque>
#include <functional>
#include <map>

#include "base/sockets/socket_path.h"
#include "base/version.h"
#include "control/start/option_table.h"

namespace uroce::control {
namespace {

// One flag and the action for each of its values, in command-line order.
struct Flag {
  CLI::Option* option;
  std::function<Status(const std::string&)> take;
};

Result<std::int64_t> parse_number(const std::string& text) {
  std::int64_t value = 0;
  if (!CLI::detail::lexical_cast(text, value)) {
    return Error{EINVAL, "'" + text + "' isn't a number"};
  }
  return value;
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
  // Find target: returns the Target that the flag is for.
  template <typename Target, typename Find>
  void add(const Option<Target>& option, Find target);
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
  bool only_checks_ = false;
};

template <typename Target, typename Find>
void Parser::add(const Option<Target>& option, Find target) {
  if (const auto* text = std::get_if<typename Option<Target>::SetText>(&option.set)) {
    add("--" + option.name, option.type, option.help,
        [set = *text, target](const std::string& value) { return set(value, target()); });
  } else if (const auto* number = std::get_if<typename Option<Target>::SetNumber>(&option.set)) {
    add("--" + option.name, option.type, option.help,
        [set = *number, target](const std::string& value) -> Status {
          const auto parsed = parse_number(value);
          return parsed ? set(*parsed, target()) : Status(parsed.error());
        });
  } else {
    const auto member = std::get<typename Option<Target>::Switch>(option.set);
    flags_.push_back({app_.add_flag("--" + option.name, option.help),
                      [member, target](const std::string& value) -> Status {
                        if (!CLI::detail::lexical_cast(value, target()->*member)) {
                          return Error{EINVAL, "'" + value + "' isn't true or false"};
                        }
                        return ok();
                      }});
  }
}

void Parser::add_port_flags() {
  add("--port", "PORT",
      "loopback, udp, shm,path=FILE, a PCI address, or a DPDK vdev string; repeat for more ports",
      [this](const std::string& text) { return begin_port(text); });
  for (const PortOption& option : port_options()) {
    add(option, [this] { return port(); });
  }
}

void Parser::add_daemon_flags() {
  for (const DaemonOption& option : daemon_options()) {
    add(option, [this] { return &options_; });
  }
  add("--config", "FILE",
      "a TOML file with these options' names as keys; command line options override it",
      [](const std::string&) { return ok(); });  // read before the other flags
  add("--ready-fd", "N", "write a byte to descriptor N when programs can connect",
      [this](const std::string& text) -> Status {
        const auto parsed = parse_number(text);
        if (!parsed || *parsed < 0 || *parsed > 1'000'000) {
          return Error{EINVAL, "'" + text + "' isn't a descriptor"};
        }
        options_.ready_descriptor = static_cast<int>(*parsed);
        return ok();
      });
  app_.add_flag("--console", options_.console,
                "read debugging commands from standard input, exit at its end (uroce-console)");
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
