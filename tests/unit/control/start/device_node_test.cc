#include "control/start/device_node.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

namespace uroce::control {
namespace {

TEST(DeviceNode, IsACharacterDevice) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("nodes-" + std::to_string(::getpid()));
  make_device_node("uroce0", folder);
  make_device_node("uroce0", folder);
  struct stat found {};
  ASSERT_EQ(::stat((folder / "uroce0").c_str(), &found), 0);
  EXPECT_TRUE(S_ISCHR(found.st_mode));
  std::filesystem::remove_all(folder);
}

TEST(DeviceNode, AFailureToMakeItIsIgnored) {
  make_device_node("uroce0", "/proc/no/such");
  EXPECT_FALSE(std::filesystem::exists("/proc/no/such"));
}

}  // namespace
}  // namespace uroce::control
