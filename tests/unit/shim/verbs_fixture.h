#pragma once

// A program with a context, domain, queue pair and completion queue of a fake daemon.

#include <fcntl.h>
#include <gtest/gtest.h>

#include "tests/unit/shim/fake_daemon.h"
#include "verbs_shim/objects/verbs.h"

namespace uroce::test {

class VerbsFixture : public testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    ASSERT_EQ(count, 1);
    context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    ASSERT_NE(context, nullptr);
    pd = ibv_alloc_pd(context);
    channel = ibv_create_comp_channel(context);
    cq = ibv_create_cq(context, 4, this, channel, 0);
    ASSERT_NE(cq, nullptr);
    cq_cookie = daemon.last_cookie();
    make_qp();
  }

  void TearDown() override {
    if (qp != nullptr) {
      EXPECT_EQ(ibv_destroy_qp(qp), 0);
    }
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
    EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);
    EXPECT_EQ(ibv_close_device(context), 0);
  }

  // A further queue pair, in RESET.
  ibv_qp* create_qp(ibv_qp_type type = IBV_QPT_RC) {
    ibv_qp_init_attr_ex attr{};
    attr.send_cq = attr.recv_cq = cq;
    attr.cap = {.max_send_wr = 4,
                .max_recv_wr = 4,
                .max_send_sge = 2,
                .max_recv_sge = 2,
                .max_inline_data = 32};
    attr.qp_type = type;
    attr.pd = pd;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.send_ops_flags =
        IBV_QP_EX_WITH_SEND | (type == IBV_QPT_UD ? 0U : std::uint64_t{IBV_QP_EX_WITH_RDMA_WRITE});
    return ibv_create_qp_ex(context, &attr);
  }

  void make_qp(ibv_qp_type type = IBV_QPT_RC) {
    qp = create_qp(type);
    ASSERT_NE(qp, nullptr);
    qp_cookie = daemon.last_cookie();
    ibv_qp_attr rts{};
    rts.qp_state = IBV_QPS_RTS;
    ASSERT_EQ(ibv_modify_qp(qp, &rts, IBV_QP_STATE), 0);
  }

  // Of no file, so for this program only.
  ibv_xrcd* open_xrc_domain() {
    ibv_xrcd_init_attr attr{};
    attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    attr.fd = -1;
    attr.oflags = O_CREAT;
    return ibv_open_xrcd(context, &attr);
  }

  FakeDaemon daemon;
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_comp_channel* channel = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;
  std::uint64_t cq_cookie = 0, qp_cookie = 0;
};

}  // namespace uroce::test
