// A daemon of another build, which refuses this one's version of the interface.

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "abi/version.h"
#include "base/sockets/socket_path.h"
#include "tests/unit/shim/fake_daemon.h"
#include "verbs_shim/objects/verbs.h"

namespace uroce::test {
namespace {

TEST(Version, OfADaemonThatDoesntFitIsNamedOnceAndLeavesNoDevice) {
  ::unsetenv("UROCE_QUIET");  // NOLINT(concurrency-mt-unsafe): nobody reads it meanwhile
  FakeDaemon daemon;
  daemon.refuse(abi::Command::kListDevices, EPROTONOSUPPORT, "uroced has version 1, not yours");
  testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i) {
    int count = -1;
    ibv_device** const list = ibv_get_device_list(&count);
    ASSERT_NE(list, nullptr);
    EXPECT_EQ(count, 0);
    ibv_free_device_list(list);
  }
  const std::string socket = std::getenv(kSocketVariable);  // NOLINT(concurrency-mt-unsafe)
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "uroce: the daemon at " + socket +
                " refused to list its devices: uroced has version 1, not yours\n");
  EXPECT_EQ(daemon.last_version(), abi::kVersion);
}

// It was restarted as another build since the program listed the devices.
TEST(Version, OfADaemonThatDoesntFitAnyMoreFailsTheOpening) {
  FakeDaemon daemon;
  ibv_device** const list = ibv_get_device_list(nullptr);
  ASSERT_NE(list[0], nullptr);
  daemon.refuse(abi::Command::kOpenDevice, EPROTONOSUPPORT);
  EXPECT_EQ(ibv_open_device(list[0]), nullptr);
  EXPECT_EQ(errno, EPROTONOSUPPORT);
  ibv_free_device_list(list);
}

}  // namespace
}  // namespace uroce::test
