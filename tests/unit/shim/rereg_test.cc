// Regions that are registered anew, and what that costs of RLIMIT_MEMLOCK; imported ones.

#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

#include "tests/unit/shim/verbs_fixture.h"

namespace uroce::test {
namespace {

constexpr std::size_t kLimit = std::size_t{1} << 20U;
constexpr std::size_t kRegion = kLimit / 4 * 3;

// This thread may lock no more than the limit, whoever it belongs to.
void respect_limit() {
  const rlimit limit{.rlim_cur = kLimit, .rlim_max = kLimit};
  ::setrlimit(RLIMIT_MEMLOCK, &limit);
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {};
  ::syscall(SYS_capget, &header, sets);
  sets[CAP_TO_INDEX(CAP_IPC_LOCK)].effective &= ~CAP_TO_MASK(CAP_IPC_LOCK);
  ::syscall(SYS_capset, &header, sets);
}

// In a process of its own, whose limit it changes. 0, or the step that failed.
int change_rights_under_a_limit() {
  FakeDaemon daemon;
  ibv_context* const context = ibv_open_device(ibv_get_device_list(nullptr)[0]);
  ibv_pd* const pd = ibv_alloc_pd(context);
  auto* const memory = static_cast<std::byte*>(
      ::mmap(nullptr, kLimit, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  respect_limit();
  ibv_mr* const mr = ibv_reg_mr(pd, memory, kRegion, IBV_ACCESS_LOCAL_WRITE);
  if (mr == nullptr) {
    return 1;
  }
  constexpr int kRights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
  for (int i = 0; i < 2; ++i) {
    if (ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kRights) != 0 ||
        ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, pd, nullptr, 0, 0) != 0) {
      return 2;
    }
  }
  ibv_mr* const rest = ibv_reg_mr(pd, memory + kRegion, kLimit - kRegion, 0);
  if (rest == nullptr) {
    return 3;  // it is charged twice
  }
  if (ibv_reg_mr(pd, memory, 1, 0) != nullptr) {
    return 4;  // it isn't charged any more
  }
  if (ibv_dereg_mr(rest) != 0 || ibv_dereg_mr(mr) != 0) {
    return 5;
  }
  return ibv_reg_mr(pd, memory, kLimit, 0) != nullptr ? 0 : 6;
}

TEST(ReregistrationDeathTest, OfTheSameMemoryIsntChargedAgain) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(_exit(change_rights_under_a_limit()), testing::ExitedWithCode(0), "");
}

class ImportedRegion : public VerbsFixture {};

// The daemon isn't asked: the handle is one of the exporter's session.
TEST_F(ImportedRegion, IsGivenBackByEitherCall) {
  for (const bool deregistered : {true, false}) {
    ibv_mr* const mr = ibv_import_mr(pd, 7);
    ASSERT_NE(mr, nullptr);
    if (deregistered) {
      EXPECT_EQ(ibv_dereg_mr(mr), 0);
    } else {
      ibv_unimport_mr(mr);
    }
    EXPECT_EQ(daemon.last_command(), abi::Command::kImportMr);
  }
}

}  // namespace
}  // namespace uroce::test
