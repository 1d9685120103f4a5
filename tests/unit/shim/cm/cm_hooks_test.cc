// The calls of librdmacm that are redirected to the shim, whichever glibc it was built with.

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/unit/shim/fake_daemon.h"
#include "verbs_shim/cm/cm_device.h"

namespace uroce::test {
namespace {

TEST(CmHooks, KnowAllNamesOfOpenAndFstat) {
  constexpr int kNames = 4;
  const FakeDaemon daemon;
  void* const library = dlopen(STAND_IN_LIBRDMACM, RTLD_NOW);
  ASSERT_NE(library, nullptr) << dlerror();  // NOLINT(concurrency-mt-unsafe): one thread
  shim::hook_librdmacm();
  auto* const open_by_name =
      reinterpret_cast<int (*)(int, const char*)>(dlsym(library, "open_by_name"));
  auto* const stat_by_name =
      reinterpret_cast<int (*)(int, int, struct stat*)>(dlsym(library, "stat_by_name"));
  ASSERT_TRUE(open_by_name != nullptr && stat_by_name != nullptr);
  for (int name = 0; name < kNames; ++name) {
    const int channel = open_by_name(name, "/dev/infiniband/rdma_cm");
    ASSERT_TRUE(shim::is_cm_channel(channel)) << name;
    struct stat status {};
    ASSERT_EQ(stat_by_name(name, channel, &status), 0) << name;
    EXPECT_TRUE(S_ISCHR(status.st_mode)) << name;
    EXPECT_EQ(shim::close_cm_channel(channel), 0);
    const UniqueFd other(open_by_name(name, "/dev/null"));
    ASSERT_TRUE(other.valid());
    EXPECT_FALSE(shim::is_cm_channel(other.get()));
    EXPECT_EQ(stat_by_name(name, other.get(), &status), 0);
  }
}

}  // namespace
}  // namespace uroce::test
