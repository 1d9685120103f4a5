#pragma once

// Text for a page. What isn't made by the functions here is escaped by them.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace uroce::report {

// For an element's text and a quoted attribute. What no text has (control characters) becomes the
// character that says so.
[[nodiscard]] std::string escaped(std::string_view text);

// A string without its quotes, anything else as JSON has it, null as nothing.
[[nodiscard]] std::string plain(const nlohmann::ordered_json& value);
[[nodiscard]] std::string plain(const nlohmann::ordered_json& object, const char* member);

// 12.3: of nanoseconds.
[[nodiscard]] std::string microseconds(double nanoseconds);

using Row = std::vector<std::string>;
// Cells that are numbers stand to the right.
[[nodiscard]] std::string table(const Row& head, const std::vector<Row>& rows);

}  // namespace uroce::report
