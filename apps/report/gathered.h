#pragma once

// What a report is made of. Gathered, not shown.

#include <nlohmann/json.hpp>
#include <string>

namespace uroce::report {

using Json = nlohmann::ordered_json;

// {"made", "tool", "kernel", "findings", "status", "history", "limits", "errors", "command_line",
// "configuration"}. What the daemon doesn't say is null, and a finding says why.
[[nodiscard]] Json gather(const std::string& library);

}  // namespace uroce::report
