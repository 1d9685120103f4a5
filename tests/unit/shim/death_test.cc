// The daemon dies under a program, or the program forks: nothing hangs, and all calls fail.

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <vector>

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

// Work that is outstanding when the daemon dies: two sends and three receives, of which it has
// completed one each.
class OutstandingAtDeath : public DaemonDeath {
 protected:
  void SetUp() override {
    DaemonDeath::SetUp();
    for (std::uint64_t i = 0; i < 2; ++i) {
      ibv_send_wr wr{};
      wr.wr_id = 100 + i;
      ibv_send_wr* bad = nullptr;
      ASSERT_EQ(ibv_post_send(qp, &wr, &bad), 0);
    }
    for (std::uint64_t i = 0; i < 3; ++i) {
      ibv_recv_wr wr{};
      wr.wr_id = 200 + i;
      ibv_recv_wr* bad = nullptr;
      ASSERT_EQ(ibv_post_recv(qp, &wr, &bad), 0);
    }
    daemon.send_ring().consumer.value.store(1);
    daemon.recv_ring().consumer.value.store(1);
    abi::Cqe cqe{};
    cqe.wr_id = 100;
    daemon.complete(cqe);
  }
};

TEST_F(OutstandingAtDeath, EachRequestCompletesOnce) {
  daemon.die();
  std::vector<std::uint64_t> flushed;
  ibv_wc wc{};
  int found = 0;
  while ((found = ibv_poll_cq(cq, 1, &wc)) >= 0) {
    if (found == 0) {
      continue;
    }
    if (wc.wr_id == 100) {
      EXPECT_EQ(wc.status, IBV_WC_SUCCESS) << "the daemon completed it";
      continue;
    }
    EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(wc.qp_num, qp->qp_num);
    flushed.push_back(wc.wr_id);
  }
  EXPECT_EQ(flushed, (std::vector<std::uint64_t>{101, 201, 202}));
}

TEST_F(OutstandingAtDeath, AThreadThatWaitsOnAChannelIsWoken) {
  ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
  daemon.die();
  ibv_cq* told = nullptr;
  void* told_context = nullptr;
  ASSERT_EQ(ibv_get_cq_event(channel, &told, &told_context), 0);
  EXPECT_EQ(told, cq);
  EXPECT_EQ(told_context, this);
  ibv_ack_cq_events(cq, 1);
  std::array<ibv_wc, 8> wc{};
  EXPECT_EQ(ibv_poll_cq(cq, wc.size(), wc.data()), 4);
  EXPECT_EQ(ibv_req_notify_cq(cq, 0), ENODEV);
  EXPECT_EQ(ibv_get_cq_event(channel, &told, &told_context), -1) << "it can't wait again";
}

TEST_F(OutstandingAtDeath, AChildDoesntCompleteItsParentsRequests) {
  const pid_t child = fork();
  if (child == 0) {
    ibv_wc wc{};
    ibv_cq* told = nullptr;
    void* told_context = nullptr;
    const bool none =
        ibv_poll_cq(cq, 1, &wc) < 0 && ibv_get_cq_event(channel, &told, &told_context) == -1;
    _exit(none ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
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
  daemon.refuse(abi::Command::kAllocPd, ENOMEM);
  EXPECT_EQ(ibv_alloc_pd(context), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  daemon.refuse(abi::Command::kModifyQp, EINVAL);
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
  ibv_pd* another = ibv_alloc_pd(context);  // the parent's still works
  ASSERT_NE(another, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(another), 0);
}

TEST_F(DaemonDeath, EventsFindTheirQueuePair) {
  daemon.announce(abi::AsyncEventRecord{IBV_EVENT_QP_FATAL, 0, qp_cookie ^ (1ULL << 40U)});
  daemon.announce(abi::AsyncEventRecord{IBV_EVENT_QP_FATAL, 0, qp_cookie});
  daemon.announce(abi::AsyncEventRecord{IBV_EVENT_PORT_ERR, 1, 0});
  ibv_async_event event{};
  ASSERT_EQ(ibv_get_async_event(context, &event), 0);
  EXPECT_EQ(event.element.qp, qp);
  EXPECT_EQ(event.event_type, IBV_EVENT_QP_FATAL);
  ibv_ack_async_event(&event);
  ASSERT_EQ(ibv_get_async_event(context, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_PORT_ERR);
  EXPECT_EQ(event.element.port_num, 1);
}

// In a process of its own, because there is one such line per process. Most programs say only that
// a call failed.
int use_a_device_that_dies() {
  ::unsetenv("UROCE_QUIET");  // NOLINT(concurrency-mt-unsafe): nobody reads it meanwhile
  FakeDaemon daemon;
  ibv_context* const context = ibv_open_device(ibv_get_device_list(nullptr)[0]);
  ibv_context* const other = ibv_open_device(ibv_get_device_list(nullptr)[0]);
  daemon.die();
  const bool lost = ibv_alloc_pd(context) == nullptr && ibv_alloc_pd(context) == nullptr &&
                    ibv_alloc_pd(other) == nullptr;
  return lost ? 0 : 1;
}

TEST(DaemonDeathDeathTest, IsToldToTheUserOnce) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(_exit(use_a_device_that_dies()), testing::ExitedWithCode(0),
              "^uroce: the connection to the daemon is lost[^\n]*\n$");
}

int arm_a_queue_of_a_dead_daemon() {
  ::setenv("UROCE_DEBUG", "1", 1);  // NOLINT(concurrency-mt-unsafe): nobody reads it meanwhile
  FakeDaemon daemon;
  ibv_context* const context = ibv_open_device(ibv_get_device_list(nullptr)[0]);
  ibv_cq* const cq = ibv_create_cq(context, 1, nullptr, nullptr, 0);
  daemon.die();
  return ibv_alloc_pd(context) == nullptr && ibv_req_notify_cq(cq, 0) == ENODEV ? 0 : 1;
}

TEST(DaemonDeathDeathTest, ArmingAQueueSaysWhyItFails) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(_exit(arm_a_queue_of_a_dead_daemon()), testing::ExitedWithCode(0),
              "uroce: ibv_req_notify_cq: the daemon is gone");
}

}  // namespace
}  // namespace uroce::test
