#include "apps/uroce_connections.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "control/socket_path.h"
#include "control/status_client.h"

namespace uroce {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

void print_listener(const Json& listener) {
  std::printf("listens at %s %s (pid %s): %s requests wait, at most %s\n",
              text_of(listener["port_space"]).c_str(), text_of(listener["address"]).c_str(),
              text_of(listener["pid"]).c_str(), text_of(listener["waiting"]).c_str(),
              text_of(listener["backlog"]).c_str());
}

void print_connection(const Json& connection) {
  const bool active = connection["active"].get<bool>();
  std::printf("%s %s %s (pid %s): %s, QP %s and QP %s, %s retries\n",
              text_of(connection["local"]).c_str(), active ? "to" : "from",
              text_of(connection["remote"]).c_str(), text_of(connection["pid"]).c_str(),
              text_of(connection["state"]).c_str(), text_of(connection["qpn"]).c_str(),
              text_of(connection["remote_qpn"]).c_str(), text_of(connection["retries"]).c_str());
}

}  // namespace

int show_connections(bool json) {
  const auto text = control::fetch_status(control::program_socket());
  if (!text) {
    std::fprintf(stderr, "uroce cm: %s\n", text.error().message.c_str());
    return 1;
  }
  const Json status = Json::parse(*text, nullptr, false);
  if (!status.is_object() || !status.contains("connections")) {
    std::fprintf(stderr, "uroce cm: the daemon's answer makes no sense\n");
    return 1;
  }
  const Json& connections = status["connections"];
  if (json) {
    std::printf("%s\n", connections.dump(2).c_str());
    return 0;
  }
  for (const Json& listener : connections["listeners"]) {
    print_listener(listener);
  }
  for (const Json& connection : connections["connections"]) {
    print_connection(connection);
  }
  std::string line;
  for (const auto& [key, value] : connections["counters"].items()) {
    if (value.is_string() ? !value.get<std::string>().empty() : value != 0) {
      line += (line.empty() ? "" : ", ") + key + " " + text_of(value);
    }
  }
  std::printf("%s\n", line.empty() ? "nothing yet" : line.c_str());
  return 0;
}

}  // namespace uroce
