#pragma once

// The daemon's report, for the subcommands that print parts of it.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace uroce {

using Json = nlohmann::ordered_json;

// Has the arrays "devices", "workers" and "sessions" and the object "connections". Nothing: it said
// why on stderr, as `command`.
std::optional<Json> fetch_report(const char* command);

// Without a string's quotes.
std::string text_of(const Json& value);

}  // namespace uroce
