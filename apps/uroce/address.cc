#include "apps/uroce/address.h"

#include <cstdio>

#include "apps/uroce/daemon_answer.h"
#include "base/sockets/socket_path.h"
#include "control/reports/status_client.h"

namespace uroce {

int list_addresses(const std::string& wanted) {
  const auto report = fetch_report("uroce addr");
  if (!report) {
    return 1;
  }
  bool found = false;
  for (const Json& device : report->at("devices")) {
    if (!wanted.empty() && text_of(device["name"]) != wanted) {
      continue;
    }
    found = true;
    for (const Json& address : device["addresses"]) {
      std::printf("%s\t%s\t%s\n", text_of(device["name"]).c_str(),
                  text_of(address["index"]).c_str(), text_of(address["address"]).c_str());
    }
  }
  if (!found && !wanted.empty()) {
    std::fprintf(stderr, "uroce addr: there is no device %s\n", wanted.c_str());
    return 1;
  }
  return 0;
}

int change_address(const std::string& device, const std::string& prefix, bool add) {
  const Status status = control::change_address(program_socket(), device, prefix, add);
  if (!status) {
    std::fprintf(stderr, "uroce addr: %s\n", status.error().message.c_str());
    return 1;
  }
  return 0;
}

}  // namespace uroce
