#include "shares/cgroup_memory.h"

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <string_view>

namespace uroce {
namespace {

// "max", and what isn't there, is no number.
std::uint64_t limit_in(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t bytes = 0;
  return file >> bytes ? bytes : kMemoryUnlimited;
}

// Of a group below `root`, and of all above it.
std::uint64_t least_from(const std::string& root, std::string group,
                         std::initializer_list<const char*> files) {
  std::uint64_t least = kMemoryUnlimited;
  for (;; group.resize(group.rfind('/'))) {
    group.resize(group == "/" ? 0 : group.size());
    for (const char* const file : files) {
      least = std::min(least, limit_in(root + group + "/" + file));
    }
    if (group.empty()) {
      return least;
    }
  }
}

// Whether "memory" is one of "cpu,memory".
bool has_memory(std::string_view controllers) {
  while (!controllers.empty()) {
    const std::size_t end = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, end) == "memory") {
      return true;
    }
    controllers.remove_prefix(std::min(end + 1, controllers.size()));
  }
  return false;
}

}  // namespace

std::uint64_t cgroup_memory(const std::string& groups, const std::string& mounted) {
  std::uint64_t least = kMemoryUnlimited;
  std::ifstream file(groups);
  // HIERARCHY:CONTROLLERS:/GROUP, the second version's without controllers.
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos ||
        line.compare(second + 1, 1, "/") != 0) {
      continue;
    }
    const std::string_view controllers(line.data() + first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      least = std::min(least, least_from(mounted, group, {"memory.max", "memory.high"}));
    } else if (has_memory(controllers)) {
      least = std::min(least, least_from(mounted + "/memory", group, {"memory.limit_in_bytes"}));
    }
  }
  return least;
}

}  // namespace uroce
