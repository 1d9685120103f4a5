#include "apps/uroce/status.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "apps/uroce/daemon_answer.h"

namespace uroce {
namespace {

// "key value, key value" of the members that aren't 0, without the keys in `shown` before.
std::string counters(const Json& object, std::initializer_list<const char*> shown) {
  std::string line;
  for (const auto& [key, value] : object.items()) {
    const bool said = std::find(shown.begin(), shown.end(), key) != shown.end();
    if (!said && value.is_number() && value != 0) {
      line += (line.empty() ? "" : ", ") + key + " " + value.dump();
    }
  }
  return line.empty() ? "nothing yet" : line;
}

void print_device(const Json& device) {
  std::printf("%s: port %s, %s, link %s, MTU %s, path MTU %s\n", text_of(device["name"]).c_str(),
              text_of(device["port"]).c_str(), text_of(device["mac"]).c_str(),
              text_of(device["link"]).c_str(), text_of(device["mtu"]).c_str(),
              text_of(device["path_mtu"]).c_str());
  if (const std::string trouble = text_of(device["trouble"]); !trouble.empty()) {
    std::printf("  %s\n", trouble.c_str());
  }
  for (const Json& address : device["addresses"]) {
    const bool claimed = address.contains("claimed_by");
    std::printf("  GID %s: %s%s\n", text_of(address["index"]).c_str(),
                text_of(address["address"]).c_str(),
                claimed ? (", also claimed by " + text_of(address["claimed_by"])).c_str() : "");
  }
  std::printf("  %s\n", counters(device, {"mtu", "path_mtu", "speed_mbps"}).c_str());
  std::printf("  RoCE: %s\n", counters(device["hw_counters"], {}).c_str());
}

void print_worker(const Json& worker) {
  std::printf("worker %s: %s\n", text_of(worker["worker"]).c_str(),
              counters(worker, {"worker"}).c_str());
  if (!worker["drops"].empty()) {
    std::printf("  dropped: %s\n", counters(worker["drops"], {}).c_str());
  }
}

void print_session(const Json& session) {
  std::printf("session %s: %s (pid %s) on %s: %s\n", text_of(session["id"]).c_str(),
              text_of(session["command"]).c_str(), text_of(session["pid"]).c_str(),
              text_of(session["device"]).c_str(), counters(session, {"id", "pid", "uid"}).c_str());
  for (const Json& qp : session["qps"]) {
    std::printf("  QP %s %s %s to %s QP %s: %s\n", text_of(qp["qpn"]).c_str(),
                text_of(qp["type"]).c_str(), text_of(qp["state"]).c_str(),
                text_of(qp["remote_gid"]).c_str(), text_of(qp["remote_qpn"]).c_str(),
                counters(qp, {"qpn", "worker", "remote_qpn", "sq_psn", "rq_psn"}).c_str());
  }
}

}  // namespace

int show_status(bool json) {
  const auto report = fetch_report("uroce status");
  if (!report) {
    return 1;
  }
  const Json& status = *report;
  if (json) {
    std::printf("%s\n", status.dump(2).c_str());
    return 0;
  }
  std::printf("uroced %s, pid %s\n", text_of(status["version"]).c_str(),
              text_of(status["pid"]).c_str());
  for (const Json& thread : status["stuck_threads"]) {
    std::printf("STUCK for %s s: %s (thread %s) %s\n", text_of(thread["seconds"]).c_str(),
                text_of(thread["name"]).c_str(), text_of(thread["thread"]).c_str(),
                text_of(thread["doing"]).c_str());
  }
  for (const Json& device : status["devices"]) {
    print_device(device);
  }
  for (const Json& worker : status["workers"]) {
    print_worker(worker);
  }
  for (const Json& session : status["sessions"]) {
    if (!text_of(session["device"]).empty()) {  // not ourselves
      print_session(session);
    }
  }
  return 0;
}

}  // namespace uroce
