// uroce-replay, which `uroce replay` starts: feeds a capture to the responder in virtual time and
// says what becomes of each frame.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <optional>
#include <sstream>

#include "apps/replay/derive.h"
#include "apps/replay/report.h"
#include "apps/replay/script.h"
#include "base/checked_output.h"

namespace uroce::replay {
namespace {

constexpr std::size_t kScriptBytesMax = 64U << 20U;

struct Options {
  std::string in, out, script;
  std::vector<std::string> addresses;
};

Result<std::vector<Gid>> parse_addresses(const std::vector<std::string>& texts) {
  std::vector<Gid> gids;
  for (const std::string& text : texts) {
    const auto gid = parse_ip(text);
    if (!gid) {
      return Error{EINVAL, "--ip takes an IPv4 or IPv6 address, not `" + text + "`"};
    }
    gids.push_back(*gid);
  }
  return gids;
}

Result<Plan> plan_from_script(const std::string& file, const std::vector<Flow>& flows,
                              const std::vector<Gid>& addresses) {
  std::ifstream in(file);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf()) || text.view().size() > kScriptBytesMax) {
    return Error{EINVAL, file + ": can't be read as a script"};
  }
  auto plan = read_script(text.str(), flows, addresses);
  return plan ? std::move(plan) : Error{EINVAL, file + ": " + plan.error().message};
}

Result<Plan> make_plan(const Options& options, const ParsedFrames& frames) {
  const auto addresses = parse_addresses(options.addresses);
  if (!addresses) {
    return addresses.error();
  }
  std::vector<Flow> flows = flows_of(frames);
  if (!options.script.empty()) {
    return plan_from_script(options.script, flows, *addresses);
  }
  std::erase_if(flows, [&](const Flow& flow) {
    return !addresses->empty() && std::find(addresses->begin(), addresses->end(),
                                            flow.path.source_gid) == addresses->end();
  });
  return derive(frames, flows);
}

Status run(const Options& options) {
  const auto captured = read_capture(options.in);
  if (!captured) {
    return captured.error();
  }
  const ParsedFrames frames = parse_all(*captured);
  const auto plan = make_plan(options, frames);
  if (!plan) {
    return plan.error();
  }
  std::optional<Progress> progress(std::in_place, "frames");
  const auto outcome = replay(*captured, frames, *plan, &*progress);
  progress.reset();
  if (!outcome) {
    return outcome.error();
  }
  print_report(frames, *plan, *outcome, std::cout);
  if (options.out.empty()) {
    return ok();
  }
  std::vector<CapturedFrame> answers;
  for (const FrameOutcome& frame : outcome->frames) {
    for (const Bytes& answer : frame.fate.answers) {
      answers.push_back({.time = frame.time, .bytes = answer});
    }
  }
  return write_capture(options.out, answers);
}

}  // namespace
}  // namespace uroce::replay

int main(int argc, char** argv) {
  uroce::replay::Options options;
  CLI::App app(
      "Feeds a capture to uroce's responder in virtual time; reports the outcome of each frame.");
  app.name("uroce replay");
  uroce::check_output_at_exit("uroce replay");
  app.add_option("IN", options.in, "a capture of Ethernet frames, pcap or pcapng")->required();
  app.add_option("--out", options.out, "write the answers to this capture");
  app.add_option("--script", options.script,
                 "queue pairs, regions and receives, as the console takes them (without: what the "
                 "capture's requests need)");
  app.add_option("--ip", options.addresses,
                 "an address of the card (repeatable; without: all that are asked something)");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (const auto status = uroce::replay::run(options); !status) {
    std::fprintf(stderr, "uroce replay: %s\n", status.error().message.c_str());
    return 1;
  }
  return 0;
}
