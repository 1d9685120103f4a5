#include "apps/uroce_report.h"

#include <algorithm>
#include <cstdio>

#include "base/socket_path.h"
#include "control/reports/status_client.h"

namespace uroce {
namespace {

bool is_report(const Json& json) {
  constexpr const char* kArrays[] = {"devices", "workers", "sessions"};
  return json.is_object() && json.contains("connections") && json["connections"].is_object() &&
         std::all_of(std::begin(kArrays), std::end(kArrays), [&](const char* name) {
           return json.contains(name) && json[name].is_array();
         });
}

}  // namespace

std::optional<Json> fetch_report(const char* command) {
  const auto text = control::fetch_status(program_socket());
  if (!text) {
    std::fprintf(stderr, "%s: %s\n", command, text.error().message.c_str());
    return std::nullopt;
  }
  Json report = Json::parse(*text, nullptr, false);
  if (!is_report(report)) {
    std::fprintf(stderr, "%s: the daemon's answer makes no sense\n", command);
    return std::nullopt;
  }
  return report;
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace uroce
