// The daemon dies under a program, or the program forks: nothing hangs, everything fails.

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "tests/unit/shim/verbs_fixture.h"

namespace uroce::test {
namespace {

class DaemonDeath : public VerbsFixture {};

TEST_F(DaemonDeath, EndsPolling) {
  daemon.die();
  ibv_wc wc{};
  int found = 0;
  while ((found = ibv_poll_cq(cq, 1, &wc)) == 0) {
  }
  EXPECT_LT(found, 0);
}

TEST_F(DaemonDeath, IsAnAsyncEvent) {
  daemon.die();
  ibv_async_event event{};
  ASSERT_EQ(ibv_get_async_event(context, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_DEVICE_FATAL);
  ibv_ack_async_event(&event);
  EXPECT_EQ(ibv_get_async_event(context, &event), -1);
  EXPECT_EQ(errno, ENODEV);
}

TEST_F(DaemonDeath, FailsCommandsAndWork) {
  daemon.die();
  EXPECT_EQ(ibv_alloc_pd(context), nullptr);
  EXPECT_EQ(errno, ENODEV);
  ibv_send_wr wr{};
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(qp, &wr, &bad), EIO);
  EXPECT_EQ(bad, &wr);
  ibv_recv_wr receive{};
  ibv_recv_wr* bad_receive = nullptr;
  EXPECT_EQ(ibv_post_recv(qp, &receive, &bad_receive), EIO);
  EXPECT_EQ(ibv_req_notify_cq(cq, 0), ENODEV);
  ibv_cq* told = nullptr;
  void* told_context = nullptr;
  EXPECT_EQ(ibv_get_cq_event(channel, &told, &told_context), -1);
  EXPECT_EQ(errno, ENODEV);
}

TEST_F(DaemonDeath, LeavesAnEmptyList) {
  daemon.die();
  setenv("UROCE_QUIET", "1", 1);
  int count = -1;
  ibv_device** list = ibv_get_device_list(&count);
  ASSERT_NE(list, nullptr);
  EXPECT_EQ(count, 0);
  EXPECT_EQ(list[0], nullptr);
  ibv_free_device_list(list);
}

TEST_F(DaemonDeath, RefusalsArePassedOn) {
  daemon.refuse(control::Command::kAllocPd, ENOMEM);
  EXPECT_EQ(ibv_alloc_pd(context), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  daemon.refuse(control::Command::kModifyQp, EINVAL);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RESET;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
  EXPECT_EQ(qp->state, IBV_QPS_RTS);
}

TEST_F(DaemonDeath, AChildCantUseItsParentsContext) {
  const pid_t child = fork();
  if (child == 0) {
    ibv_send_wr wr{};
    ibv_send_wr* bad = nullptr;
    ibv_wc wc{};
    const bool harmless = ibv_post_send(qp, &wr, &bad) == EIO && ibv_poll_cq(cq, 1, &wc) < 0 &&
                          ibv_alloc_pd(context) == nullptr;
    _exit(harmless ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(daemon.send_ring().producer.value.load(), 0U);
  ibv_pd* another = ibv_alloc_pd(context);  // the parent's works as before
  ASSERT_NE(another, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(another), 0);
}

TEST_F(DaemonDeath, EventsFindTheirQueuePair) {
  daemon.announce(control::AsyncEventRecord{IBV_EVENT_QP_FATAL, 0, qp_cookie ^ (1ULL << 40U)});
  daemon.announce(control::AsyncEventRecord{IBV_EVENT_QP_FATAL, 0, qp_cookie});
  daemon.announce(control::AsyncEventRecord{IBV_EVENT_PORT_ERR, 1, 0});
  ibv_async_event event{};
  ASSERT_EQ(ibv_get_async_event(context, &event), 0);
  EXPECT_EQ(event.element.qp, qp);
  EXPECT_EQ(event.event_type, IBV_EVENT_QP_FATAL);
  ibv_ack_async_event(&event);
  ASSERT_EQ(ibv_get_async_event(context, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_PORT_ERR);
  EXPECT_EQ(event.element.port_num, 1);
}

}  // namespace
}  // namespace uroce::test
