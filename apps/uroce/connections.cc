#include "apps/uroce/connections.h"

#include <cstdio>
#include <string>

#include "apps/uroce/daemon_answer.h"

namespace uroce {
namespace {

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
  const auto report = fetch_report("uroce cm");
  if (!report) {
    return 1;
  }
  const Json& connections = report->at("connections");
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
