// A parent domain may be freed before the objects that were created in it.

#include <array>

#include "tests/unit/shim/verbs_fixture.h"

namespace uroce::test {
namespace {

class ParentDomain : public VerbsFixture {};

TEST_F(ParentDomain, IsntReadOnceItIsFreed) {
  static std::array<std::byte, 8'192> memory;
  ibv_parent_domain_init_attr attr{};
  attr.pd = pd;
  ibv_pd* const parent = ibv_alloc_parent_domain(context, &attr);
  ASSERT_NE(parent, nullptr);
  ibv_mr* const mr = ibv_reg_mr(parent, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(mr->pd, parent);
  ASSERT_EQ(ibv_dealloc_pd(parent), 0);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0), 0);
  EXPECT_EQ(daemon.registered_in(), pd->handle);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

}  // namespace
}  // namespace uroce::test
