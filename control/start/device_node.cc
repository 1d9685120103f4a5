#include "control/start/device_node.h"

#include <sys/stat.h>
#include <unistd.h>

namespace uroce::control {

void make_device_node(const std::string& name, const std::string& folder) {
  constexpr mode_t kFolderMode = 0755;
  (void)::mkdir(folder.c_str(), kFolderMode);
  [[maybe_unused]] const int made = ::symlink("/dev/null", (folder + "/" + name).c_str());
}

}  // namespace uroce::control
