// What the daemon says of itself.

#include <nlohmann/json.hpp>

#include "apps/console/commands.h"
#include "base/sockets/socket_path.h"
#include "control/reports/status_client.h"
#include "dataplane/qp/counters.h"

namespace uroce::console {
namespace {

using Json = nlohmann::ordered_json;

Result<Json> status() {
  const auto text = control::fetch_status(program_socket());
  return text ? Result<Json>(Json::parse(*text)) : Result<Json>(text.error());
}

// A line for each of the transport's counters (dataplane/qp/counters.def) among `values`.
std::string transport_counters(const Json& values) {
  std::string text;
  for (const RoceCounter& counter : kRoceCounters) {
    const std::string name(counter.name);
    if (values.contains(name)) {
      text += name + "=" + values[name].dump() + "\n";
    }
  }
  return text;
}

std::string port_counters(const Json& answer) {
  const Json& device = answer["devices"][0];
  std::string text =
      "rx_frames=" + device["rx_frames"].dump() + " tx_frames=" + device["tx_frames"].dump() + "\n";
  text += transport_counters(device["hw_counters"]);
  std::map<std::string, std::uint64_t> drops;
  for (const Json& worker : answer["workers"]) {
    for (const auto& [reason, count] : worker["drops"].items()) {
      drops[reason] += count.get<std::uint64_t>();
    }
  }
  for (const auto& [reason, count] : drops) {
    text += "drop." + reason + "=" + std::to_string(count) + "\n";
  }
  return text;
}

// REQUIRES: the queue pair is one of the only device's, where a number names one.
std::string queue_counters(const Json& answer, std::uint32_t qpn) {
  for (const Json& session : answer["sessions"]) {
    for (const Json& qp : session["qps"]) {
      if (qp["qpn"] == qpn) {
        return transport_counters(qp);
      }
    }
  }
  return "error=the daemon doesn't report this queue pair\n";
}

}  // namespace

Result<std::string> show_port(Objects& /*objects*/, Words& words) {
  const auto answer = status();
  if (Status checked = words.check(); !checked || !answer) {
    return !checked ? checked.error() : answer.error();
  }
  const Json& device = (*answer)["devices"][0];
  std::string text;
  for (const char* key : {"mac", "link", "mtu", "path_mtu"}) {
    const Json& value = device[key];
    text.append(key).append("=").append(value.is_string() ? value.get<std::string>()
                                                          : value.dump());
    text += ' ';
  }
  text.back() = '\n';
  for (const Json& gid : device["gids"]) {
    text += "gid=" + gid.get<std::string>() + "\n";
  }
  return text;
}

Result<std::string> show_counters(Objects& objects, Words& words) {
  const std::string name = words.next_name();
  const auto queue = name.empty() ? Result<Queue*>(nullptr) : objects.queue(name);
  const auto answer = status();
  if (Status checked = words.check(); !checked || !queue || !answer) {
    return !checked ? checked.error() : !queue ? queue.error() : answer.error();
  }
  return *queue == nullptr ? port_counters(*answer) : queue_counters(*answer, (*queue)->qp->qp_num);
}

}  // namespace uroce::console
