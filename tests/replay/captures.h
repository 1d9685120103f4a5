#pragma once

// The names of a real peer's captures, for tests with a case for each.

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/wire/capture_file.h"

namespace uroce::test {

inline std::vector<std::string> capture_names() {
  std::vector<std::string> names;
  if (const auto folder = captures_folder(); folder) {
    for (const auto& entry : std::filesystem::directory_iterator(*folder)) {
      if (entry.path().extension() == ".pcap") {
        names.push_back(entry.path().stem().string());
      }
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace uroce::test
