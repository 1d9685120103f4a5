#pragma once

// The report as one HTML page.

#include <nlohmann/json.hpp>
#include <string>

namespace uroce::report {

// `gathered`: of gather().
[[nodiscard]] std::string page(const nlohmann::ordered_json& gathered);

// Rows of sessions, queue pairs and errors on it, each; the page says how many there are.
inline constexpr std::size_t kPageRowsMax = 200;
// Of the status as it came, at its end.
inline constexpr std::size_t kRawBytesMax = 1'000'000;

}  // namespace uroce::report
