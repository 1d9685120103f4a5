#include "dataplane/port/ethdev/open_descriptors.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>

namespace uroce {

std::vector<int> open_descriptors() {
  std::vector<int> descriptors;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    descriptors.push_back(std::stoi(entry.path().filename().string()));
  }
  std::sort(descriptors.begin(), descriptors.end());
  return descriptors;
}

}  // namespace uroce
