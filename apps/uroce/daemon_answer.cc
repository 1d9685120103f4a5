#include "apps/uroce/daemon_answer.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/sockets/socket_path.h"
#include "control/reports/status_client.h"

namespace uroce {
namespace {

std::nullopt_t no_sense(const char* command) {
  std::fprintf(stderr, "%s: can't parse the daemon's answer\n", command);
  return std::nullopt;
}

}  // namespace

std::optional<Json> answer_of(const char* command, const Result<std::string>& text,
                              std::initializer_list<const char*> arrays) {
  if (!text) {
    std::fprintf(stderr, "%s: %s\n", command, text.error().message.c_str());
    return std::nullopt;
  }
  Json answer = Json::parse(*text, nullptr, false);
  const bool whole =
      answer.is_object() && std::all_of(arrays.begin(), arrays.end(), [&](const char* name) {
        return answer.contains(name) && answer[name].is_array();
      });
  return whole ? std::optional(std::move(answer)) : no_sense(command);
}

std::optional<Json> fetch_report(const char* command) {
  auto report = answer_of(command, control::fetch_status(program_socket()),
                          {"devices", "workers", "sessions"});
  if (report && !(report->contains("connections") && (*report)["connections"].is_object())) {
    return no_sense(command);
  }
  return report;
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace uroce
