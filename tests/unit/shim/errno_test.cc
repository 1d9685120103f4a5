// errno after verbs is what it is after the system calls that a card's driver makes of them:
// programs print it (qperf, perftest's clean-up), also of verbs that return their error.

#include <array>
#include <cerrno>

#include "tests/unit/shim/verbs_fixture.h"

namespace uroce::test {
namespace {

constexpr int kBefore = 4'242;  // no error's

class Errno : public VerbsFixture {
 protected:
  void SetUp() override {
    VerbsFixture::SetUp();
    errno = kBefore;
  }
};

TEST_F(Errno, IsTheErrorOfAVerbThatReturnsIt) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  daemon.refuse(abi::Command::kModifyQp, EINVAL);
  EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
  EXPECT_EQ(errno, EINVAL);
  ibv_qp_init_attr init{};
  daemon.refuse(abi::Command::kQueryQp, ENOMEM);
  EXPECT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), ENOMEM);
  EXPECT_EQ(errno, ENOMEM);
}

TEST_F(Errno, IsLeftAloneByVerbsThatSucceed) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
  EXPECT_EQ(errno, kBefore);
  ibv_pd* other = ibv_alloc_pd(context);
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(errno, kBefore);
  ibv_cq* queue = ibv_create_cq(context, 4, nullptr, nullptr, 0);
  ASSERT_NE(queue, nullptr);
  EXPECT_EQ(errno, kBefore);
  EXPECT_EQ(ibv_destroy_cq(queue), 0);
  EXPECT_EQ(ibv_dealloc_pd(other), 0);
  EXPECT_EQ(errno, kBefore);
}

// As udaddy does: what it prints is why the queue pair wasn't made, not what became of its remains.
TEST_F(Errno, OutlivesTheCleanUpBehindARefusal) {
  ibv_cq* queue = ibv_create_cq(context, 4, nullptr, nullptr, 0);
  ASSERT_NE(queue, nullptr);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  daemon.refuse(abi::Command::kModifyQp, EINVAL);
  EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
  EXPECT_EQ(ibv_destroy_cq(queue), 0);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(Errno, IsLeftAloneByWhatIsDestroyedWithoutADaemon) {
  ibv_pd* other = ibv_alloc_pd(context);
  ASSERT_NE(other, nullptr);
  daemon.die();
  errno = kBefore;
  EXPECT_EQ(ibv_dealloc_pd(other), 0);
  EXPECT_EQ(errno, kBefore);
}

TEST_F(Errno, IsLeftAloneByARegistration) {
  alignas(4'096) static std::array<std::byte, 8'192> memory;
  ibv_mr* region = ibv_reg_mr(pd, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(region, nullptr);
  EXPECT_EQ(errno, kBefore);
  EXPECT_EQ(ibv_dereg_mr(region), 0);
  EXPECT_EQ(errno, kBefore);
}

}  // namespace
}  // namespace uroce::test
