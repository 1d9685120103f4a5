#include "tests/conformance/script.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace uroce::test {

bool Line::has(std::string_view name) const {
  return std::any_of(words.begin(), words.end(),
                     [&](const auto& word) { return word.first == name; });
}

std::optional<std::string> Line::text(std::string_view name) const {
  for (const auto& [key, value] : words) {
    if (key == name) {
      return value;
    }
  }
  return std::nullopt;
}

std::optional<std::uint64_t> Line::number_of(std::string_view name) const {
  const std::optional<std::string> value = text(name);
  return value ? std::optional(to_number(*value)) : std::nullopt;
}

std::uint64_t to_number(std::string_view text) {
  return std::strtoull(std::string(text).c_str(), nullptr, 0);
}

namespace {

Line parse_line(int number, const std::string& text) {
  Line line;
  line.number = number;
  std::istringstream in(text);
  in >> line.verb;
  for (std::string word; in >> word;) {
    const std::size_t equals = word.find('=');
    line.words.emplace_back(word.substr(0, equals),
                            equals == std::string::npos ? "" : word.substr(equals + 1));
  }
  return line;
}

Status read_file(const std::filesystem::path& path, std::vector<Script>& scripts) {
  std::ifstream in(path);
  int number = 0;
  for (std::string text; std::getline(in, text);) {
    ++number;
    text = text.substr(0, text.find('#'));
    const Line line = parse_line(number, text);
    if (line.verb.empty()) {
      continue;
    }
    if (line.verb == "case") {
      scripts.push_back({.name = line.subject(),
                         .clause = line.text("clause").value_or(""),
                         .file = path.filename().string(),
                         .lines = {}});
    } else if (scripts.empty() || scripts.back().file != path.filename().string()) {
      return Error{EINVAL, path.string() + " starts without a case"};
    } else {
      scripts.back().lines.push_back(line);
    }
  }
  return ok();
}

}  // namespace

Result<std::vector<Script>> read_scripts(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".case") {
      paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Script> scripts;
  for (const auto& path : paths) {
    if (const Status status = read_file(path, scripts); !status) {
      return status.error();
    }
  }
  return scripts;
}

}  // namespace uroce::test
