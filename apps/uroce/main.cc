// The command-line tool: runs programs on uroce's card, and shows what the daemon does.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/doctor/doctor.h"
#include "apps/report/report.h"
#include "apps/tree/tree_keeper.h"
#include "apps/uroce/address.h"
#include "apps/uroce/connections.h"
#include "apps/uroce/errors.h"
#include "apps/uroce/limits.h"
#include "apps/uroce/odp.h"
#include "apps/uroce/run.h"
#include "apps/uroce/run_line.h"
#include "apps/uroce/status.h"
#include "base/checked_output.h"
#include "base/version.h"

namespace {

// Programs of their own in apps/NAME, which read their own options; so does `uroce integrity`.
constexpr const char* kPrograms[] = {"replay", "check", "capture", "top"};

// What follows such a subcommand. None if it isn't asked for, or if nothing follows.
std::vector<std::string> arguments_of(const char* subcommand, int argc, char** argv) {
  return argc > 1 && std::string(argv[1]) == subcommand
             ? std::vector<std::string>(argv + 2, argv + argc)
             : std::vector<std::string>{};
}

// `uroce doctor PEER` and `--serve` make transfers, as programs of the card; without, it looks
// around here.
bool asks_for_peer(const std::vector<std::string>& arguments) {
  bool is_value = false;
  return std::any_of(arguments.begin(), arguments.end(), [&](const std::string& word) {
    const bool stands_alone =
        !std::exchange(is_value, word == "--port" || word == "--device" || word == "--gid-index");
    return stands_alone && (word == "--serve" || !word.starts_with('-'));
  });
}

// Its two sides are to be started on two machines; without, both are processes of this one.
bool has_two_sides(const std::vector<std::string>& arguments) {
  return std::any_of(arguments.begin(), arguments.end(), [](const std::string& word) {
    return word == "--server" || word == "--connect";
  });
}

constexpr const char* kRunHelp =
    "run [--net [ADDRESS]] [--namespace] [--no-tree] [--] COMMAND...: run it with uroce's "
    "libibverbs, and show it the card in /sys and /dev. When no daemon answers, or with --net, a "
    "private one is started for the life of the command, whose port is a loopback or, with --net, "
    "this machine's network. After an option, -- must stand before COMMAND.";

// Nothing: `uroce run` isn't what was asked for, or its help is. CLI11 must not see the command's
// words, so it shows the options of `run` but never reads any.
std::optional<int> run_if_asked(int argc, char** argv) {
  if (argc < 2 || std::string(argv[1]) != "run") {
    return std::nullopt;
  }
  const auto line = uroce::parse_run_line({argv + 2, argv + argc});
  if (!line) {
    std::fprintf(stderr, "uroce run: %s\n", line.error().message.c_str());
    return 2;
  }
  return line->help ? std::nullopt
                    : std::optional(uroce::run_command(line->command, line->options));
}

// Nothing: what was asked for isn't a program of its own, or stands alone.
std::optional<int> run_program_if_asked(int argc, char** argv) {
  for (const char* const program : kPrograms) {
    if (const auto arguments = arguments_of(program, argc, argv); !arguments.empty()) {
      return uroce::run_program(program, arguments);
    }
  }
  if (const auto arguments = arguments_of("integrity", argc, argv); !arguments.empty()) {
    return uroce::run_on_card("integrity", "integrity", arguments, has_two_sides(arguments));
  }
  if (const auto arguments = arguments_of("doctor", argc, argv); asks_for_peer(arguments)) {
    return uroce::run_on_card("doctor", "uroce-doctor", arguments, true);
  }
  return std::nullopt;
}

// What `uroce run --help` shows.
void show_run(CLI::App* app) {
  CLI::App* const run = app->add_subcommand("run", kRunHelp);
  const auto ignore = [](const CLI::results_t&) { return true; };
  run->add_option(
         "--net", ignore,
         "a private daemon, whose port is this machine's network: UDP 4791 of ADDRESS, or "
         "of the default route's interface. If UROCE_SOCKET names a daemon, that one is used")
      ->type_name("[ADDRESS]")
      ->expected(0, 1);
  const auto nothing = [](std::int64_t) {};
  run->add_flag("--namespace", nothing, "show the card by mounts, which static programs see, too");
  run->add_flag("--no-tree", nothing, "don't show the card in /sys and /dev");
}

// The first word, if it looks like a subcommand and is none.
std::optional<std::string> unknown_subcommand(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') {
    return std::nullopt;
  }
  const std::string word = argv[1];
  const auto all = app.get_subcommands([](const CLI::App*) { return true; });
  const bool known = std::any_of(all.begin(), all.end(),
                                 [&](const CLI::App* one) { return one->get_name() == word; });
  return known ? std::nullopt : std::optional(word);
}

// `uroce addr`
struct AddressCommand {
  CLI::App *all, *add, *del;
  std::string prefix, device;

  explicit AddressCommand(CLI::App* app)
      : all(app->add_subcommand("addr", "Show, add or remove addresses of devices.")),
        add(all->add_subcommand("add", "add ADDRESS/N: add an address to the port.")),
        del(all->add_subcommand("del", "del ADDRESS: remove an address from the port.")) {
    all->require_subcommand(0, 1);
    all->add_option("--device", device, "the device (to list: all; to change: the first one)");
    for (CLI::App* const change : {add, del}) {
      change->add_option("--device", device, "the device (the first one)");
    }
    add->add_option("address", prefix, "like 10.0.0.2/24, fd00::2/64, or 10.0.0.2/24@5 in VLAN 5")
        ->required();
    del->add_option("address", prefix, "the address")->required();
  }
  [[nodiscard]] int run() const {
    return *add || *del ? uroce::change_address(device, prefix, add->parsed())
                        : uroce::list_addresses(device);
  }
};

// `uroce odp`
struct OdpCommand {
  CLI::App* all;
  bool json = false, trace = false;

  explicit OdpCommand(CLI::App* app)
      : all(app->add_subcommand(
            "odp", "Show on-demand paging: resident memory, page faults, their times.")) {
    all->add_flag("--json", json, "print one JSON object");
    all->add_flag("--trace", trace, "show the last faults, too");
  }
};

// `uroce errors`
struct ErrorsCommand {
  CLI::App* all;
  bool follow = false, json = false;

  explicit ErrorsCommand(CLI::App* app)
      : all(app->add_subcommand(
            "errors", "Show why completions failed and calls were refused, a line each.")) {
    all->add_flag("--follow,-f", follow, "keep printing new lines until interrupted");
    all->add_flag("--json", json, "print one JSON object a line");
  }
};

// `uroce report`
struct ReportCommand {
  CLI::App* all;
  uroce::ReportOptions options;

  explicit ReportCommand(CLI::App* app)
      : all(app->add_subcommand("report",
                                "What a bug report needs: the last minutes, programs, limits, "
                                "errors, configuration.")) {
    auto* const html = all->add_option("--html", options.html,
                                       "write one page for a browser to this file; - is standard "
                                       "output");
    all->add_flag("--json", options.json, "print one JSON object")->excludes(html);
  }
};

// `uroce tree`
struct TreeCommand {
  CLI::App* all;
  std::string folder;

  explicit TreeCommand(CLI::App* app)
      : all(app->add_subcommand("tree",
                                "tree FOLDER: maintain there what /sys and /dev would show of the "
                                "cards, until interrupted.")) {
    all->add_option("folder", folder, "the folder; created if missing")->required();
  }
};

// Options of `uroce doctor PEER` and `--serve`, which CLI11 shows and never gets: without a peer
// they mean nothing, and are refused.
void show_transfer_options(CLI::App* doctor) {
  doctor->add_flag(
      "--serve", [](std::int64_t) {}, "wait for a peer's `uroce doctor HOST`");
  const auto ignore = [](const CLI::results_t&) { return true; };
  const auto refuse = [](const std::string&) { return std::string("goes with PEER or --serve"); };
  doctor->add_option("--port", ignore, "TCP port by which the two find each other (18518)")
      ->type_name("N")
      ->check(refuse, "");
  doctor->add_option("--device", ignore, "the device (the first one)")
      ->type_name("NAME")
      ->check(refuse, "");
  doctor->add_option("--gid-index", ignore, "of the address to use (1)")
      ->type_name("N")
      ->check(refuse, "");
}

// Those that have no option but --json, and those that are programs of their own.
struct SimpleCommands {
  CLI::App *status, *connections, *limits, *doctor;
  bool json = false;

  explicit SimpleCommands(CLI::App* app)
      : status(app->add_subcommand(
            "status", "Show ports, addresses, workers, sessions, objects and counters.")),
        connections(app->add_subcommand("cm",
                                        "Show listeners, connections, and why the last "
                                        "connection was refused.")),
        limits(
            app->add_subcommand("limits", "Show each user's use and limits of shared resources.")),
        doctor(app->add_subcommand("doctor",
                                   "doctor [PEER | --serve]: check this machine's set-up and "
                                   "suggest remedies; or test the path to a peer.")) {
    doctor->footer(
        "doctor PEER: real transfers to where `uroce doctor --serve` runs, over a daemon's port on "
        "a wire; where no daemon answers, a private one is started, as by `uroce run --net`.");
    show_transfer_options(doctor);
    app->add_subcommand(
        "integrity",
        "integrity [--server | --connect HOST ...]: random operations between two programs, "
        "here or, over a wire, on two machines, every byte verified; integrity --help has its "
        "options.");
    app->add_subcommand("replay",
                        "replay IN.pcap [--out OUT.pcap] [--script FILE]: feed a capture to the "
                        "responder, and report the outcome of each frame.");
    app->add_subcommand("top",
                        "top [--batch]: ports, workers, programs and queue pairs with their rates, "
                        "continuously updated.");
    app->add_subcommand(
        "capture",
        "capture OUT.pcapng [--device D] [--qp N] [--peer A] [--drops | --on-error N]: "
        "the daemon's packets for Wireshark, each with a comment.");
    app->add_subcommand("check",
                        "check CAPTURE [--json]: find losses and protocol violations in a capture "
                        "of any RoCEv2 cards.");
    for (CLI::App* one : {status, connections, limits, doctor}) {
      one->add_flag("--json", json, "print one JSON object");
    }
  }
};

constexpr const char* kFooter =
    "UROCE_SOCKET names the daemon's socket; without it the system's daemon is taken if one "
    "answers, else your own.\n"
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
  if (const auto status = run_program_if_asked(argc, argv)) {
    return *status;
  }
  uroce::check_output_at_exit("uroce");
  CLI::App app("uroce: RDMA programs on a network card made of software.");
  app.name("uroce");
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("uroce ") + uroce::kReleaseVersion);
  app.footer(kFooter);

  show_run(&app);
  SimpleCommands simple(&app);
  OdpCommand odp(&app);
  ErrorsCommand errors(&app);
  ReportCommand report(&app);
  TreeCommand tree(&app);
  AddressCommand addresses(&app);
  if (const auto word = unknown_subcommand(app, argc, argv)) {
    std::fprintf(stderr, "uroce: there is no subcommand %s; see uroce --help\n", word->c_str());
    return 2;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (*simple.status) {
    return uroce::show_status(simple.json);
  }
  if (*odp.all) {
    return uroce::show_odp(odp.json, odp.trace);
  }
  if (*simple.connections) {
    return uroce::show_connections(simple.json);
  }
  if (*simple.doctor) {
    return uroce::run_doctor(uroce::own_library(), simple.json);
  }
  if (*report.all) {
    return uroce::run_report(uroce::own_library(), report.options);
  }
  if (*simple.limits) {
    return uroce::show_limits(simple.json);
  }
  if (*errors.all) {
    return uroce::show_errors(errors.follow, errors.json);
  }
  if (*addresses.all) {
    return addresses.run();
  }
  if (*tree.all) {
    return uroce::keep_tree(tree.folder);
  }
  for (const char* const program : kPrograms) {
    if (app.got_subcommand(program)) {
      return uroce::run_program(program, {});
    }
  }
  return uroce::run_on_card("integrity", "integrity", {});  // the only one that is left
}
