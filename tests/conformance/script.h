#pragma once

// The conformance corpus as text (tests/conformance/cases/README.md): a case is a list of lines, a
// line a list of words, a word `name` or `name=value`. Their meaning is left to the drivers (in
// memory: player.h).

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace uroce::test {

struct Line {
  int number = 0;
  std::string verb;                                        // the first word
  std::vector<std::pair<std::string, std::string>> words;  // the others; without '=': value ""

  [[nodiscard]] bool has(std::string_view name) const;
  [[nodiscard]] std::optional<std::string> text(std::string_view name) const;
  // Decimal or 0x...
  [[nodiscard]] std::optional<std::uint64_t> number_of(std::string_view name) const;
  // The word after the verb: an opcode, a state, a name.
  [[nodiscard]] std::string subject() const { return words.empty() ? "" : words.front().first; }
};

struct Script {
  std::string name;
  std::string clause;
  std::string file;
  std::vector<Line> lines;
};

// All cases of all *.case files of a folder, sorted by file.
[[nodiscard]] Result<std::vector<Script>> read_scripts(const std::filesystem::path& folder);

[[nodiscard]] std::uint64_t to_number(std::string_view text);

}  // namespace uroce::test
