#include "control/start/clean_environment.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

namespace uroce::control {
namespace {

// As DPDK's drivers name it, where the package has put the shim first.
TEST(LibibverbsOfSystem, IsTheOneThatIsFoundByItsNameFromThenOn) {
  load_libibverbs_of_system();
  void* const found = ::dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(found, nullptr);
  Dl_info place{};
  ASSERT_NE(::dladdr(::dlsym(found, "ibv_get_device_list"), &place), 0);
  Dl_info libc{};
  ASSERT_NE(::dladdr(::dlsym(RTLD_DEFAULT, "gnu_get_libc_version"), &libc), 0);
  const auto folder_of = [](const std::string& file) { return file.substr(0, file.rfind('/')); };
  EXPECT_EQ(folder_of(place.dli_fname), folder_of(libc.dli_fname));
  ::dlclose(found);
}

}  // namespace
}  // namespace uroce::control
