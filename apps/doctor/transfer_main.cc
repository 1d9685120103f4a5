// uroce-doctor, which `uroce doctor PEER` and `uroce doctor --serve` start as programs of the card.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/doctor/transfers.h"
#include "base/checked_output.h"
#include "base/sockets/socket_path.h"
#include "control/reports/status_client.h"

namespace uroce::doctor {
namespace {

constexpr std::uint16_t kPortDefault = 18'518;

struct Options {
  std::string peer, device;
  std::uint16_t port = kPortDefault;
  int gid_index = 1;
  bool serve = false, json = false;
};

integrity::Limits limits() {
  integrity::Limits limits;
  limits.queue_pairs = 1;
  // Arenas are four times as large, and together they must fit an ordinary user's 8 MiB of locked
  // memory.
  limits.size_max = kTransferBytesMax / 4;
  return limits;
}

bool right(const TransferResult& result) {
  return result.failure.empty() && result.wrong_bytes == 0;
}

void print_line(const TransferResult& result) {
  if (!result.failure.empty()) {
    std::printf("PROBLEM  %7u bytes: %s\n", result.bytes, result.failure.c_str());
    return;
  }
  std::printf("%-7s  %7u bytes: WRITE %.1f us, READ %.1f us, %.3f Gb/s, %s\n",
              right(result) ? "ok" : "PROBLEM", result.bytes, result.write_seconds * 1e6,
              result.read_seconds * 1e6, result.gigabits_per_second,
              right(result) ? "every byte right"
                            : (std::to_string(result.wrong_bytes) + " bytes wrong").c_str());
}

void print_transfers_json(const std::vector<TransferResult>& results, std::uint32_t mtu,
                          const std::string& cure) {
  auto list = nlohmann::ordered_json::array();
  for (const TransferResult& result : results) {
    list.push_back({{"bytes", result.bytes},
                    {"failure", result.failure},
                    {"wrong_bytes", result.wrong_bytes},
                    {"write_seconds", result.write_seconds},
                    {"read_seconds", result.read_seconds},
                    {"gigabits_per_second", result.gigabits_per_second}});
  }
  const nlohmann::ordered_json all = {{"path_mtu", mtu}, {"transfers", list}, {"advice", cure}};
  std::printf("%s\n", all.dump(2).c_str());
}

// The device's name if the daemon says that its port is a loopback; else nothing.
std::string loopback(const ibv_context& context) {
  const auto text = control::fetch_status(program_socket());
  const auto report = nlohmann::json::parse(text ? *text : "", nullptr, false);
  const char* const name = ibv_get_device_name(context.device);
  if (!report.is_object() || !report.contains("devices")) {
    return {};
  }
  const auto& devices = report["devices"];
  const bool found = std::any_of(devices.begin(), devices.end(), [&](const auto& device) {
    return device.value("name", "") == name && device.value("port", "") == "loopback";
  });
  return found ? name : "";
}

int serve(const Options& options) {
  const int descriptor = integrity::Link::listen_once("uroce doctor", options.port);
  if (descriptor < 0) {
    return 1;
  }
  const integrity::Link link(descriptor);
  integrity::Card card(options.device, options.gid_index, limits(), integrity::Odp::kNo);
  if (const std::string why = meet(link, card); !why.empty()) {
    std::fprintf(stderr, "uroce doctor: %s\n", why.c_str());
    return 1;
  }
  char over = 0;
  return link.receive(&over, sizeof(over)) ? 0 : 1;  // the peer does the rest
}

// connect_to() has said on standard error what the system says.
int explain_unreachable(int descriptor, const Options& options) {
  const bool unknown = descriptor == integrity::Link::kUnknownHost;
  const std::string why =
      unknown
          ? options.peer + " is no host that is known here"
          : "nothing listens at " + options.peer + ", TCP port " + std::to_string(options.port) +
                ": run `uroce doctor --serve` there, and open that port in firewalls";
  if (options.json) {
    print_transfers_json({}, unknown ? 0 : path_mtu_to(options.peer), why);
  } else if (!unknown) {
    std::fprintf(stderr, "uroce doctor: %s\n", why.c_str());
  }
  return 1;
}

int examine_peer(const Options& options) {
  const int descriptor = integrity::Link::connect_to("uroce doctor", options.peer, options.port);
  if (descriptor < 0) {
    return explain_unreachable(descriptor, options);
  }
  const integrity::Link link(descriptor);
  integrity::Card card(options.device, options.gid_index, limits(), integrity::Odp::kNo);
  const std::string why = meet(link, card);
  const PathFacts path{.path_mtu = path_mtu_to(options.peer),
                       .loopback = loopback(*card.endpoint(0).qp->context)};
  if (!why.empty()) {
    if (options.json) {
      print_transfers_json({}, path.path_mtu, why);
    } else {
      std::printf("PROBLEM  %s\n", why.c_str());
    }
    return 1;
  }
  std::optional<Progress> progress(std::in_place, "sizes of transfers");
  const auto results = transfer_all(card, *progress);
  progress.reset();
  (void)link.send("o", 1);
  const std::string cure = advice(results, path);
  if (options.json) {
    print_transfers_json(results, path.path_mtu, cure);
  } else {
    if (path.path_mtu != 0) {
      std::printf("ok       mtu: IP packets to %s have %u bytes at most\n", options.peer.c_str(),
                  path.path_mtu);
    }
    std::for_each(results.begin(), results.end(), print_line);
    std::printf("%s\n", cure.empty() ? "the path to the peer works" : cure.c_str());
  }
  return std::all_of(results.begin(), results.end(), right) ? 0 : 1;
}

}  // namespace
}  // namespace uroce::doctor

int main(int argc, char** argv) {
  uroce::doctor::Options options;
  integrity::program = {.name = "uroce doctor", .how_to_need_less = ""};
  CLI::App app("Tests the path to a peer by real transfers, or serves such a test.");
  app.name("uroce doctor");
  uroce::check_output_at_exit("uroce doctor");
  app.add_option("PEER", options.peer, "where `uroce doctor --serve` runs");
  app.add_flag("--serve", options.serve, "wait for one peer");
  app.add_option("--port", options.port, "TCP port by which the two find each other")
      ->capture_default_str();
  app.add_option("--device", options.device, "the device (the first one)");
  app.add_option("--gid-index", options.gid_index, "of the address to use")->capture_default_str();
  app.add_flag("--json", options.json, "print one JSON object");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (options.serve == !options.peer.empty()) {
    std::fprintf(stderr, "uroce doctor: give a PEER or --serve\n");
    return 2;
  }
  return options.serve ? uroce::doctor::serve(options) : uroce::doctor::examine_peer(options);
}
