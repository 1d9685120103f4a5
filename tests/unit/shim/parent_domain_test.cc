// A parent domain can't be freed while queues that were created in it exist, but before its
// regions.

#include <array>
#include <cerrno>
#include <utility>

#include "tests/unit/shim/verbs_fixture.h"

namespace uroce::test {
namespace {

class ParentDomain : public VerbsFixture {
 protected:
  void SetUp() override {
    VerbsFixture::SetUp();
    ibv_parent_domain_init_attr attr{};
    attr.pd = pd;
    parent_ = ibv_alloc_parent_domain(context, &attr);
    ASSERT_NE(parent_, nullptr);
  }

  ibv_pd* parent_ = nullptr;
};

TEST_F(ParentDomain, IsntReadOnceItIsFreed) {
  static std::array<std::byte, 8'192> memory;
  ibv_mr* const mr = ibv_reg_mr(parent_, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(mr->pd, parent_);
  ASSERT_EQ(ibv_dealloc_pd(parent_), 0);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0), 0);
  EXPECT_EQ(daemon.registered_in(), pd->handle);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(ParentDomain, KeepsItsDomain) {
  errno = 0;
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
  EXPECT_EQ(errno, EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(parent_), 0);
}

TEST_F(ParentDomain, IsBusyWhileItHasAQueuePair) {
  ASSERT_EQ(ibv_destroy_qp(qp), 0);
  ibv_pd* const domain = std::exchange(pd, parent_);
  make_qp();
  pd = domain;
  errno = 0;
  EXPECT_EQ(ibv_dealloc_pd(parent_), EBUSY);
  EXPECT_EQ(errno, EBUSY);
  ASSERT_EQ(ibv_destroy_qp(std::exchange(qp, nullptr)), 0);
  EXPECT_EQ(ibv_dealloc_pd(parent_), 0);
}

TEST_F(ParentDomain, IsBusyWhileItHasACompletionQueue) {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 4;
  attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
  attr.parent_domain = parent_;
  ibv_cq_ex* const queue = ibv_create_cq_ex(context, &attr);
  ASSERT_NE(queue, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(parent_), EBUSY);
  ASSERT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(queue)), 0);
  EXPECT_EQ(ibv_dealloc_pd(parent_), 0);
}

// The same holds for one that receives for others, and only has a domain for librdmacm.
TEST_F(ParentDomain, IsBusyWhileItHasAnXrcTarget) {
  ibv_xrcd* const xrcd = open_xrc_domain();
  ASSERT_NE(xrcd, nullptr);
  ibv_qp_init_attr_ex attr{};
  attr.qp_type = IBV_QPT_XRC_RECV;
  attr.comp_mask = IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_PD;
  attr.xrcd = xrcd;
  attr.pd = parent_;
  ibv_qp* const target = ibv_create_qp_ex(context, &attr);
  ASSERT_NE(target, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(parent_), EBUSY);
  EXPECT_EQ(ibv_destroy_qp(target), 0);
  EXPECT_EQ(ibv_dealloc_pd(parent_), 0);
  EXPECT_EQ(ibv_close_xrcd(xrcd), 0);
}

TEST_F(ParentDomain, IsntCountedForAQueueThatWasRefused) {
  daemon.refuse(abi::Command::kCreateQp, ENOMEM);
  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = cq;
  attr.qp_type = IBV_QPT_RC;
  EXPECT_EQ(ibv_create_qp(parent_, &attr), nullptr);
  EXPECT_EQ(ibv_dealloc_pd(parent_), 0);
}

}  // namespace
}  // namespace uroce::test
