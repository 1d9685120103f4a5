// What the daemon says of itself.

#include <nlohmann/json.hpp>

#include "apps/console/commands.h"
#include "base/socket_path.h"
#include "control/reports/status_client.h"

namespace uroce::console {
namespace {

using Json = nlohmann::ordered_json;

Result<Json> status() {
  const auto text = control::fetch_status(program_socket());
  return text ? Result<Json>(Json::parse(*text)) : Result<Json>(text.error());
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

Result<std::string> show_counters(Objects& /*objects*/, Words& words) {
  const auto answer = status();
  if (Status checked = words.check(); !checked || !answer) {
    return !checked ? checked.error() : answer.error();
  }
  const Json& device = (*answer)["devices"][0];
  std::string text =
      "rx_frames=" + device["rx_frames"].dump() + " tx_frames=" + device["tx_frames"].dump() + "\n";
  std::map<std::string, std::uint64_t> drops;
  for (const Json& worker : (*answer)["workers"]) {
    for (const auto& [reason, count] : worker["drops"].items()) {
      drops[reason] += count.get<std::uint64_t>();
    }
  }
  for (const auto& [reason, count] : drops) {
    text += "drop." + reason + "=" + std::to_string(count) + "\n";
  }
  return text;
}

}  // namespace uroce::console
