// errno after verbs is what the system calls of a card's driver would leave: programs print it
// (qperf, perftest's clean-up), also after verbs that return their error.

#include <array>
#include <cerrno>

#include "tests/unit/shim/verbs_fixture.h"

namespace uroce::test {
namespace {

constexpr int kBefore = 4'242;  // no error code

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

// As in udaddy: it prints why the queue pair wasn't made, not the result of the clean-up.
TEST_F(Errno, OutlivesTheCleanUpAfterARefusal) {
  ibv_cq* queue = ibv_create_cq(context, 4, nullptr, nullptr, 0);
  ASSERT_NE(queue, nullptr);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  daemon.refuse(abi::Command::kModifyQp, EINVAL);
  EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
  EXPECT_EQ(ibv_destroy_cq(queue), 0);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(Errno, IsLeftAloneByDestructionWithoutADaemon) {
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
