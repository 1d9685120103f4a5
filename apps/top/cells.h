#pragma once

// Helpers of the views: reading reports, rates, rows.

#include <array>
#include <cstddef>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace uroce::top {

using Json = nlohmann::ordered_json;
using Lines = std::vector<std::string>;

// null: there is none.
[[nodiscard]] const Json& member(const Json& object, const char* name);
[[nodiscard]] double number(const Json& object, const char* name);
[[nodiscard]] std::string text(const Json& object, const char* name);

// Finds an element of an array in the previous report by its `key`; null: there was none.
class PreviousReport {
 public:
  PreviousReport(const Json& list, const char* key);
  [[nodiscard]] const Json& of(const Json& one) const;

 private:
  const char* key_;
  std::map<std::string, const Json*> by_key_;
};

// The rate of a counter, per second.
[[nodiscard]] double rate(const Json& before, const Json& now, const char* name, double seconds);
// The rate at which a queue pair sends, with and without frames.
[[nodiscard]] double rate_sent(const Json& before, const Json& now, double seconds);

template <typename... Cells>
std::string row(const char* format, const Cells&... cells) {
  std::array<char, 512> line{};
  std::snprintf(line.data(), line.size(), format, cells.c_str()...);
  return line.data();
}
inline std::string cell(const char* words) { return words; }

// A row and its sort key.
struct Ranked {
  double rank = 0;
  std::string line;
};

// The largest ones, in their order; the others are counted as `what`.
void add_ranked(std::vector<Ranked> rows, std::size_t rows_max, const char* what, Lines& lines);

}  // namespace uroce::top
