// The command-line tool: runs programs on uroce's card, and shows what the daemon does.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "apps/uroce_address.h"
#include "apps/uroce_connections.h"
#include "apps/uroce_errors.h"
#include "apps/uroce_odp.h"
#include "apps/uroce_run.h"
#include "apps/uroce_status.h"
#include "base/version.h"

namespace {

// `uroce replay`: a program of its own, which reads its own options.
std::vector<std::string> replay_arguments(int argc, char** argv) {
  return argc > 1 && std::string(argv[1]) == "replay"
             ? std::vector<std::string>(argv + 2, argv + argc)
             : std::vector<std::string>{};
}

constexpr const char* kRunHelp =
    "run [--net [ADDRESS]] [--] COMMAND...: run it with uroce's libibverbs. When no daemon "
    "answers, "
    "a private one with a loopback port is started for the life of the command; with --net its "
    "port is this machine's network (UDP 4791 of ADDRESS, or of the default route's interface), "
    "and -- must stand before COMMAND.";

// The command of `uroce run`: all that follows belongs to it, so CLI11 must not see it. Empty for
// anything else, also for `uroce run --help`, and for a --net that no -- ends.
std::vector<std::string> command_to_run(int argc, char** argv, uroce::RunOptions* options) {
  std::vector<std::string> command(argv + 1, argv + argc);
  if (command.size() < 2 || command[0] != "run" || command[1] == "--help" || command[1] == "-h") {
    return {};
  }
  command.erase(command.begin());
  if (command[0] == "--net") {
    const auto end = std::find(command.begin(), command.end(), "--");
    if (end == command.end() || end - command.begin() > 2) {
      return {};
    }
    options->network = true;
    options->address = end - command.begin() == 2 ? command[1] : "";
    command.erase(command.begin(), end);
  }
  if (command[0] == "--") {
    command.erase(command.begin());
  }
  return command;
}

// Nothing: `uroce run` isn't what was asked for, or not with a command.
std::optional<int> run_if_asked(int argc, char** argv) {
  uroce::RunOptions options;
  const auto command = command_to_run(argc, argv, &options);
  return command.empty() ? std::nullopt : std::optional(uroce::run_command(command, options));
}

// `uroce addr`
struct AddressCommand {
  CLI::App *all, *add, *del;
  std::string prefix, device;

  explicit AddressCommand(CLI::App* app)
      : all(app->add_subcommand("addr", "Show, add or remove addresses of devices.")),
        add(all->add_subcommand("add", "add ADDRESS/N: from now on the port has it.")),
        del(all->add_subcommand("del", "del ADDRESS: the port has it no more.")) {
    all->add_option("--device", device, "the device (the first one)");
    all->require_subcommand(0, 1);
    add->add_option("address", prefix, "like 10.0.0.2/24, fd00::2/64, or 10.0.0.2/24@5 in VLAN 5")
        ->required();
    del->add_option("address", prefix, "the address")->required();
  }
  [[nodiscard]] int run() const {
    return *add || *del ? uroce::change_address(device, prefix, add->parsed())
                        : uroce::list_addresses();
  }
};

constexpr const char* kFooter =
    "UROCE_SOCKET names the daemon's socket; without it the system's daemon is taken.\n"
    "UROCE_DEBUG, UROCE_HOOKS and UROCE_MEMORY are for the program that is run: see uroce(1).\n\n"
    "Examples:\n"
    "  uroce run -- ibv_devinfo\n"
    "  uroce run -- ib_write_bw -x 1\n"
    "  uroce run --net -- rping -s\n"
    "  uroce status\n"
    "  uroce errors --follow";

}  // namespace

int main(int argc, char** argv) {
  if (const auto status = run_if_asked(argc, argv)) {
    return *status;
  }
  if (const auto arguments = replay_arguments(argc, argv); !arguments.empty()) {
    return uroce::run_replay(arguments);
  }
  CLI::App app("uroce: RDMA programs on a network card made of software.");
  app.name("uroce");
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("uroce ") + uroce::kReleaseVersion);
  app.footer(kFooter);

  app.add_subcommand("run", kRunHelp);
  CLI::App* status = app.add_subcommand(
      "status", "Show ports, addresses, workers, sessions, objects and counters.");
  bool json = false;
  status->add_flag("--json", json, "print one JSON object");

  CLI::App* replay = app.add_subcommand(
      "replay",
      "replay IN.pcap [--out OUT.pcap] [--script FILE]: feed a capture to the responder, and say "
      "what becomes of each frame.");
  CLI::App* connections =
      app.add_subcommand("cm",
                         "Show who listens, which connections there are, and why the last "
                         "one was refused.");
  connections->add_flag("--json", json, "print one JSON object");
  CLI::App* odp = app.add_subcommand(
      "odp", "Show on-demand paging: resident memory, page faults, their times.");
  bool trace = false;
  odp->add_flag("--json", json, "print one JSON object");
  odp->add_flag("--trace", trace, "show the last faults, too");

  CLI::App* errors = app.add_subcommand(
      "errors", "Show why completions failed and calls were refused, a line each.");
  bool follow = false;
  errors->add_flag("--follow,-f", follow, "go on with new lines until ended");
  errors->add_flag("--json", json, "print one JSON object a line");

  const AddressCommand addresses(&app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (*status) {
    return uroce::show_status(json);
  }
  if (*odp) {
    return uroce::show_odp(json, trace);
  }
  if (*connections) {
    return uroce::show_connections(json);
  }
  if (*errors) {
    return uroce::show_errors(follow, json);
  }
  if (*addresses.all) {
    return addresses.run();
  }
  if (*replay) {
    return uroce::run_replay({});
  }
  std::fputs("uroce run: say which command to run, for instance: uroce run -- ibv_devinfo\n",
             stderr);
  return 2;
}
