#include "apps/uroce_address.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "control/socket_path.h"
#include "control/status_client.h"

namespace uroce {

int list_addresses() {
  const auto text = control::fetch_status(control::program_socket());
  if (!text) {
    std::fprintf(stderr, "uroce addr: %s\n", text.error().message.c_str());
    return 1;
  }
  const auto report = nlohmann::ordered_json::parse(*text, nullptr, false);
  for (const auto& device : report["devices"]) {
    for (const auto& address : device["addresses"]) {
      std::printf("%s\t%d\t%s\n", device["name"].get<std::string>().c_str(),
                  address["index"].get<int>(), address["address"].get<std::string>().c_str());
    }
  }
  return 0;
}

int change_address(const std::string& device, const std::string& prefix, bool add) {
  const Status status = control::change_address(control::program_socket(), device, prefix, add);
  if (!status) {
    std::fprintf(stderr, "uroce addr: %s\n", status.error().message.c_str());
    return 1;
  }
  return 0;
}

}  // namespace uroce
