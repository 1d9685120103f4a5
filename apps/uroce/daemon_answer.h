#pragma once

// What the daemon answers, for the subcommands that print parts of it.

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/result.h"

namespace uroce {

using Json = nlohmann::ordered_json;

// An answer of control/reports/status_client.h as the object that it is, with these arrays.
// Nothing: there is none, or it makes no sense; why is on stderr, as `command`.
std::optional<Json> answer_of(const char* command, const Result<std::string>& text,
                              std::initializer_list<const char*> arrays);

// The status. Has the arrays "devices", "workers" and "sessions" and the object "connections".
// Nothing: as answer_of().
std::optional<Json> fetch_report(const char* command);

// Without a string's quotes.
std::string text_of(const Json& value);

}  // namespace uroce
