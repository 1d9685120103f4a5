// Verbs in a program that has used up its memory.

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>

#include "base/sanitized.h"
#include "tests/unit/address_space.h"
#include "tests/unit/shim/verbs_fixture.h"

namespace uroce::test {
namespace {

constexpr std::size_t kRegion = std::size_t{64} << 10U;
constexpr std::size_t kRegions = 16;

void use_up_memory() {
  const rlimit limit{.rlim_cur = address_space(), .rlim_max = RLIM_INFINITY};
  ::setrlimit(RLIMIT_AS, &limit);
  for (std::size_t bytes = std::size_t{1} << 20U; bytes >= sizeof(void*); bytes /= 2) {
    for (;;) {
      void* volatile const lost = std::malloc(bytes);  // NOLINT: as wanted
      if (lost == nullptr) {
        break;
      }
    }
  }
}

// In a process of its own. 0, or the step that failed.
int register_without_memory() {
  FakeDaemon daemon;
  ibv_context* const context = ibv_open_device(ibv_get_device_list(nullptr)[0]);
  ibv_pd* const pd = ibv_alloc_pd(context);
  auto* const memory = static_cast<std::byte*>(::mmap(
      nullptr, kRegions * kRegion, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ibv_mr* const first = ibv_reg_mr(pd, memory, kRegion, IBV_ACCESS_LOCAL_WRITE);
  if (first == nullptr) {
    return 1;
  }
  use_up_memory();
  std::size_t refused = 0;
  for (std::size_t i = 1; i < kRegions; ++i) {
    if (ibv_reg_mr(pd, memory + i * kRegion, kRegion, IBV_ACCESS_LOCAL_WRITE) == nullptr) {
      if (errno != ENOMEM) {
        return 2;
      }
      ++refused;
    }
  }
  return refused == 0 ? 3 : 0;
}

TEST(NoMemoryDeathTest, RegistrationsAreRefused) {
  if (kSanitized) {
    GTEST_SKIP() << "sanitizers need more address space than a limit leaves";
  }
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(_exit(register_without_memory()), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace uroce::test
