// uroce-capture, which `uroce capture` starts: the packets of a running daemon, in a file for
// Wireshark.

#include <sys/signalfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "apps/capture/daemon_rings.h"
#include "apps/capture/pcapng_writer.h"
#include "apps/capture/recorder.h"
#include "base/checked_output.h"
#include "base/sockets/socket_path.h"
#include "base/time/monotonic_clock.h"
#include "base/version.h"
#include "control/reports/status_client.h"

namespace uroce::capture {
namespace {

Result<std::vector<std::string>> device_names() {
  const auto text = control::fetch_status(program_socket());
  if (!text) {
    return text.error();
  }
  const auto report = nlohmann::json::parse(*text, nullptr, false);
  std::vector<std::string> names;
  if (report.is_object() && report.contains("devices")) {
    for (const auto& device : report["devices"]) {
      names.push_back(device.value("name", ""));
    }
  }
  return names;
}

Result<CaptureFilter> wanted_of(const Options& options, const std::vector<std::string>& devices) {
  CaptureFilter wanted{
      .port = std::nullopt, .qpn = options.qpn, .peer = std::nullopt, .drops = options.drops};
  if (!options.device.empty()) {
    const auto found = std::find(devices.begin(), devices.end(), options.device);
    if (found == devices.end()) {
      return Error{ENODEV, "the daemon has no device " + options.device};
    }
    wanted.port = static_cast<std::uint16_t>(found - devices.begin());
  }
  if (!options.peer.empty()) {
    wanted.peer = parse_ip(options.peer);
    if (!wanted.peer) {
      return Error{EINVAL, "--peer takes an IP address, not `" + options.peer + "`"};
    }
  }
  return wanted;
}

int blocked_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  (void)::signal(SIGPIPE, SIG_IGN);
  return ::signalfd(-1, &signals, SFD_CLOEXEC);
}

void say_what_came(const Options& options, const Recorder& recorder, std::uint64_t missed) {
  if (options.json) {
    const nlohmann::ordered_json json = {{"file", options.out},
                                         {"packets", recorder.written()},
                                         {"missed", missed},
                                         {"failed_completions", recorder.failures()}};
    std::printf("%s\n",
                json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  }
  if (!options.quiet) {
    std::fprintf(stderr, "uroce capture: %llu packets, %llu missed because the buffer was full%s\n",
                 static_cast<unsigned long long>(recorder.written()),
                 static_cast<unsigned long long>(missed),
                 options.on_error == 0
                     ? ""
                     : (", failed completions: " + std::to_string(recorder.failures())).c_str());
  }
}

Status run(const Options& options) {
  if (options.json && options.out == "-") {
    return Error{EINVAL, "--json wants standard output for itself: name a file"};
  }
  const int signals = blocked_signals();
  const auto devices = device_names();
  if (!devices) {
    return devices.error();
  }
  auto wanted = wanted_of(options, *devices);
  if (!wanted) {
    return wanted.error();
  }
  // A daemon that refuses leaves a file as it was.
  auto rings = DaemonRings::open(program_socket(), options.ring, options.snap);
  if (!rings) {
    return rings.error();
  }
  auto writer = PcapngWriter::open(options.out, std::string("uroce ") + kReleaseVersion);
  if (!writer) {
    return writer.error();
  }
  for (const std::string& name : *devices) {
    writer->add_interface(name, options.snap);
  }
  if (!options.quiet) {
    std::fprintf(stderr, "uroce capture: capturing to %s, until Ctrl-C%s\n", options.out.c_str(),
                 options.on_error == 0
                     ? ""
                     : (" or failed completions: " + std::to_string(options.errors)).c_str());
  }
  Recorder recorder(options, std::move(*wanted), *rings, *writer);
  bool whole = recorder.run(signals);
  for (std::uint32_t i = 0; i < devices->size(); ++i) {
    writer->add_statistics(i, monotonic_now() + recorder.offset(), recorder.written(),
                           rings->missed());
  }
  whole = writer->flush() && whole;
  if (rings->gone() && !options.quiet) {
    std::fprintf(stderr, "uroce capture: the daemon has ended\n");
  }
  say_what_came(options, recorder, rings->missed());
  return whole ? ok()
               : Status(Error{writer->error(),
                              options.out + " is incomplete: " + std::strerror(writer->error())});
}

}  // namespace
}  // namespace uroce::capture

int main(int argc, char** argv) {
  uroce::capture::Options options;
  CLI::App app("Writes the packets of a running daemon to a file for Wireshark.");
  app.name("uroce capture");
  uroce::check_output_at_exit("uroce capture");
  app.add_option("OUT", options.out, "a pcapng file; - is standard output")->required();
  app.add_option("--device", options.device, "of this device only");
  app.add_option("--qp", options.qpn, "of this queue pair only");
  app.add_option("--peer", options.peer, "to and from this address only");
  auto* const drops = app.add_flag("--drops", options.drops, "only what was dropped");
  auto* const on_error =
      app.add_option("--on-error", options.on_error,
                     "only N packets before and after each failed completion")
          ->check(CLI::Range(std::size_t{1}, uroce::capture::ErrorWindow::kPacketsMax))
          ->excludes(drops);
  app.add_option("--errors", options.errors, "exit after N failed completions (16)")
      ->check(CLI::Range(1U, 1'000'000U))
      ->needs(on_error);
  app.add_option("--ring", options.ring, "bytes that may wait to be written (100M)")
      ->transform(CLI::AsSizeValue(true));
  app.add_option("--snap", options.snap, "bytes of a packet, at most")
      ->check(CLI::Range(128U, uroce::abi::kCaptureSnapMax));
  app.add_option("--count", options.count, "end after so many packets")->check(CLI::PositiveNumber);
  app.add_option("--seconds", options.seconds, "end after this time (0: never)")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--quiet", options.quiet, "say nothing");
  app.add_flag("--json", options.json, "print a summary as one JSON object at the end");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (const auto status = uroce::capture::run(options); !status) {
    std::fprintf(stderr, "uroce capture: %s\n", status.error().message.c_str());
    return 1;
  }
  return 0;
}
