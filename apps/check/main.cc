// uroce-check, which `uroce check` starts: analyses a capture of any RoCEv2 cards.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

#include "apps/check/report.h"
#include "apps/check/spool.h"
#include "base/checked_output.h"

namespace uroce::check {
namespace {

constexpr int kFaultsFound = 1, kTrouble = 2;

// A sentence that begins with the file's name, for the user, who gave it another one.
std::string named_as(const std::string& in, const Source& source, const std::string& sentence) {
  const std::string file = source.file.string();
  return sentence.starts_with(file) ? in + sentence.substr(file.size()) : sentence;
}

int run(const std::string& in, const Limits& limits, bool json) {
  const auto source = open_source(in);
  if (!source) {
    std::fprintf(stderr, "uroce check: %s\n", source.error().message.c_str());
    return kTrouble;
  }
  Verdict verdict;
  Status judged = ok();
  {
    Progress progress("frames");
    judged = analyse(source->file, limits, verdict, &progress);
  }
  if (!judged) {
    std::fprintf(stderr, "uroce check: %s\n",
                 named_as(in, *source, judged.error().message).c_str());
    return kTrouble;
  }
  (json ? print_json : print_report)(verdict, std::cout);
  return verdict.faults() == 0 ? 0 : kFaultsFound;
}

}  // namespace
}  // namespace uroce::check

int main(int argc, char** argv) {
  std::string in;
  bool json = false;
  double cnp_interval_us = 4;
  double patience_ms = 100;
  CLI::App app(
      "Analyses a capture of RoCEv2 traffic of any cards: what was lost, and what violates the "
      "protocol.");
  app.name("uroce check");
  uroce::check_output_at_exit("uroce check", uroce::check::kTrouble);
  app.footer("Exit status: 0 nothing is wrong, 1 faults were found, 2 it can't be read.");
  app.add_option("CAPTURE", in, "Ethernet frames, pcap or pcapng; - is standard input")->required();
  app.add_flag("--json", json, "print one JSON object");
  app.add_option("--cnp-interval", cnp_interval_us,
                 "microseconds that lie between two congestion notifications at least")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1e6));
  app.add_option("--patience", patience_ms,
                 "milliseconds after which what was lost must have been repaired")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1e6));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : uroce::check::kTrouble;
  }
  uroce::check::Limits limits;
  limits.cnp_interval = static_cast<uroce::Duration>(
      cnp_interval_us * static_cast<double>(uroce::kNanosecondsPerMicrosecond));
  limits.patience = static_cast<uroce::Duration>(
      patience_ms * static_cast<double>(uroce::kNanosecondsPerMillisecond));
  return uroce::check::run(in, limits, json);
}
