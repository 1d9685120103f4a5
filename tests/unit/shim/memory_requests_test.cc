// Windows, invalidations, atomic writes and flushes as entries of the send ring.

#include <cerrno>
#include <cstring>

#include "tests/unit/shim/verbs_fixture.h"
#include "verbs_shim/include/uroce/verbs_flush.h"

namespace uroce::test {
namespace {

class MemoryRequests : public VerbsFixture {
 protected:
  void SetUp() override {
    VerbsFixture::SetUp();
    mr.lkey = 0x501;
    mr.pd = pd;
    window.rkey = 0x1234AA;
    window.type = IBV_MW_TYPE_2;
    window.pd = pd;
    window.context = context;
  }
  ibv_send_wr bind_wr(unsigned access) {
    ibv_send_wr wr{};
    wr.wr_id = 7;
    wr.opcode = IBV_WR_BIND_MW;
    wr.bind_mw = {
        .mw = &window,
        .rkey = ibv_inc_rkey(window.rkey),
        .bind_info = {.mr = &mr, .addr = 0x7000, .length = 64, .mw_access_flags = access}};
    return wr;
  }
  int post(ibv_send_wr& wr) {
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp, &wr, &bad);
  }
  // The queue pair with all ibv_wr_* calls.
  ibv_qp_ex* begin() {
    ibv_qp_ex* extended = ibv_qp_to_qp_ex(qp);
    extended->wr_id = 9;
    extended->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_start(extended);
    return extended;
  }
  void expect_bind(const abi::SendWr& entry, std::uint32_t new_key) {
    EXPECT_EQ(entry.opcode, abi::WrOpcode::kBindMw);
    EXPECT_EQ(entry.payload_count, 0U);
    EXPECT_EQ(entry.rkey >> 8U, 0x1234U);
    EXPECT_EQ(entry.remote_address, 0x7000U);
    EXPECT_EQ(entry.bind.length, 64U);
    EXPECT_EQ(entry.bind.lkey, 0x501U);
    EXPECT_EQ(entry.bind.access, unsigned{IBV_ACCESS_REMOTE_READ});
    EXPECT_EQ(entry.immediate, new_key);
  }

  ibv_mr mr{};
  ibv_mw window{};
};

TEST_F(MemoryRequests, BindsWindowsOfBothTypes) {
  ibv_send_wr wr = bind_wr(IBV_ACCESS_REMOTE_READ);
  ASSERT_EQ(post(wr), 0);
  expect_bind(daemon.send_entry(0), 0x1234AB);
  EXPECT_EQ(window.rkey, 0x1234AAU);  // of a type 2 window the program chooses the key

  window.type = IBV_MW_TYPE_1;
  EXPECT_EQ(post(wr), EINVAL);
  ibv_mw_bind bind{.wr_id = 8, .send_flags = IBV_SEND_SIGNALED, .bind_info = wr.bind_mw.bind_info};
  ASSERT_EQ(ibv_bind_mw(qp, &window, &bind), 0);
  expect_bind(daemon.send_entry(1), 0x1234AB);
  EXPECT_EQ(daemon.send_entry(1).wr_id, 8U);
  EXPECT_EQ(daemon.send_entry(1).flags, abi::kSignaled);
  EXPECT_EQ(window.rkey, 0x1234ABU);

  window.type = IBV_MW_TYPE_2;
  ibv_qp_ex* extended = begin();
  ibv_wr_bind_mw(extended, &window, 0x1234FF, &wr.bind_mw.bind_info);
  ASSERT_EQ(ibv_wr_complete(extended), 0);
  expect_bind(daemon.send_entry(2), 0x1234FF);
}

TEST_F(MemoryRequests, RefusesBindsThatNoRegionCouldAllow) {
  ibv_send_wr unknown = bind_wr(1U << 15U);
  EXPECT_EQ(post(unknown), EINVAL);
  ibv_send_wr nowhere = bind_wr(IBV_ACCESS_REMOTE_READ);
  nowhere.bind_mw.bind_info.mr = nullptr;
  EXPECT_EQ(post(nowhere), EINVAL);
  window.type = IBV_MW_TYPE_1;
  ibv_mw_bind bind{.wr_id = 8, .send_flags = 0, .bind_info = nowhere.bind_mw.bind_info};
  bind.bind_info.mr = &mr;
  bind.bind_info.mw_access_flags = IBV_ACCESS_ZERO_BASED;
  EXPECT_EQ(ibv_bind_mw(qp, &window, &bind), EINVAL);
  EXPECT_EQ(window.rkey, 0x1234AAU);
  EXPECT_EQ(daemon.send_ring().producer.value.load(), 0U);
}

TEST_F(MemoryRequests, NamesTheKeyToInvalidate) {
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_LOCAL_INV;
  wr.invalidate_rkey = 0x42;
  ASSERT_EQ(post(wr), 0);
  wr.opcode = IBV_WR_SEND_WITH_INV;
  ASSERT_EQ(post(wr), 0);
  ibv_qp_ex* extended = begin();
  ibv_wr_local_inv(extended, 0x42);
  ibv_wr_send_inv(extended, 0x42);
  ASSERT_EQ(ibv_wr_complete(extended), 0);
  for (std::uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(daemon.send_entry(i).immediate, 0x42U);
    EXPECT_EQ(daemon.send_entry(i).opcode,
              i % 2 == 0 ? abi::WrOpcode::kLocalInv : abi::WrOpcode::kSendWithInv);
  }
}

TEST_F(MemoryRequests, CopiesTheBytesOfAnAtomicWriteWhenPosted) {
  char bytes[] = "01234567";
  ibv_qp_ex* extended = begin();
  ibv_wr_atomic_write(extended, 0x99, 0x7000, bytes);
  std::memset(bytes, 'x', sizeof(bytes));
  ASSERT_EQ(ibv_wr_complete(extended), 0);
  const abi::SendWr& entry = daemon.send_entry(0);
  EXPECT_EQ(entry.opcode, abi::WrOpcode::kAtomicWrite);
  EXPECT_EQ(entry.flags, abi::kSignaled | abi::kInline);
  EXPECT_EQ(entry.payload_count, 8U);
  EXPECT_EQ(
      std::memcmp(reinterpret_cast<const char*>(&entry) + abi::kSendPayloadOffset, "01234567", 8),
      0);
}

TEST_F(MemoryRequests, FlushesByTheFunctionOfNewerHeaders) {
  ibv_qp_ex* extended = begin();
  uroce_wr_flush(extended, 0x99, 0x7000, 4096, UROCE_FLUSH_PERSISTENT, UROCE_FLUSH_MR);
  ASSERT_EQ(ibv_wr_complete(extended), 0);
  const abi::SendWr& entry = daemon.send_entry(0);
  EXPECT_EQ(entry.opcode, abi::WrOpcode::kFlush);
  EXPECT_EQ(entry.remote_address, 0x7000U);
  EXPECT_EQ(entry.flush.placement, 2U);
  EXPECT_EQ(entry.flush.selectivity, 1U);
  EXPECT_EQ(entry.flush.length, 4096U);
  ibv_send_wr wr{};
  wr.opcode = static_cast<ibv_wr_opcode>(UROCE_WR_FLUSH);
  EXPECT_EQ(post(wr), EOPNOTSUPP);  // the structure has no place for its operands
}

// Moving a queue pair to RESET drops its unpolled completions, and keeps those of others in order.
TEST_F(MemoryRequests, ResetDropsCompletionsOfTheQueuePair) {
  for (std::uint64_t id = 1; id <= 4; ++id) {
    abi::Cqe cqe{};
    cqe.wr_id = id;
    cqe.qp_num = id % 2 == 0 ? FakeDaemon::kQpn : FakeDaemon::kQpn + 1;
    daemon.complete(cqe);
  }
  ibv_qp_attr reset{};
  reset.qp_state = IBV_QPS_RESET;
  ASSERT_EQ(ibv_modify_qp(qp, &reset, IBV_QP_STATE), 0);
  ibv_wc wcs[4];
  ASSERT_EQ(ibv_poll_cq(cq, 4, wcs), 2);
  EXPECT_EQ(wcs[0].wr_id, 1U);
  EXPECT_EQ(wcs[1].wr_id, 3U);
}

// So does destroying it: a program frees what wr_id points to, and goes on polling for others.
TEST_F(MemoryRequests, DestroyingDropsCompletionsOfTheQueuePair) {
  for (const std::uint64_t id : {1U, 2U}) {
    abi::Cqe cqe{};
    cqe.wr_id = id;
    cqe.qp_num = id == 2 ? FakeDaemon::kQpn : FakeDaemon::kQpn + 1;
    daemon.complete(cqe);
  }
  ASSERT_EQ(ibv_destroy_qp(qp), 0);
  qp = nullptr;
  ibv_wc wcs[2];
  ASSERT_EQ(ibv_poll_cq(cq, 2, wcs), 1);
  EXPECT_EQ(wcs[0].wr_id, 1U);
}

}  // namespace
}  // namespace uroce::test
