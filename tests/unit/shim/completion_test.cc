#include <fcntl.h>
#include <poll.h>

#include <cerrno>
#include <thread>
#include <utility>

#include "base/time/monotonic_clock.h"
#include "tests/unit/shim/verbs_fixture.h"
#include "verbs_shim/objects/objects.h"

namespace uroce::test {
namespace {

class Completion : public VerbsFixture {};

abi::Cqe completion(std::uint64_t id) {
  abi::Cqe cqe{};
  cqe.wr_id = id;
  cqe.byte_len = 100;
  cqe.qp_num = FakeDaemon::kQpn;
  cqe.immediate = 0x01020304;
  cqe.wc_flags = abi::kWcWithImm;
  cqe.opcode = abi::WcOpcode::kRecv;
  cqe.status = abi::WcStatus::kSuccess;
  cqe.timestamp_ns = 5'000;
  return cqe;
}

TEST_F(Completion, IsPolledOnceAndInOrder) {
  ibv_wc wcs[4];
  EXPECT_EQ(ibv_poll_cq(cq, 4, wcs), 0);
  for (std::uint64_t id = 1; id <= 3; ++id) {
    daemon.complete(completion(id));
  }
  ASSERT_EQ(ibv_poll_cq(cq, 2, wcs), 2);
  EXPECT_EQ(wcs[0].wr_id, 1U);
  EXPECT_EQ(wcs[0].opcode, IBV_WC_RECV);
  EXPECT_EQ(wcs[0].byte_len, 100U);
  EXPECT_EQ(wcs[0].qp_num, FakeDaemon::kQpn);
  EXPECT_EQ(wcs[0].imm_data, 0x01020304U);
  EXPECT_EQ(wcs[0].wc_flags, unsigned{IBV_WC_WITH_IMM});
  EXPECT_EQ(daemon.cq().ring.consumer.value.load(), 2U);
  ASSERT_EQ(ibv_poll_cq(cq, 4, wcs), 1);
  EXPECT_EQ(wcs[0].wr_id, 3U);
  EXPECT_EQ(ibv_poll_cq(cq, 4, wcs), 0);
}

TEST_F(Completion, KeepsTheStrongerArming) {
  ASSERT_EQ(ibv_req_notify_cq(cq, 1), 0);
  EXPECT_EQ(daemon.cq().arm.load(), static_cast<std::uint32_t>(abi::Arm::kSolicited));
  ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
  ASSERT_EQ(ibv_req_notify_cq(cq, 1), 0);
  EXPECT_EQ(daemon.cq().arm.load(), static_cast<std::uint32_t>(abi::Arm::kNext));
}

TEST_F(Completion, ReachesTheChannel) {
  daemon.announce(
      abi::CompletionEvent{cq_cookie + (1ULL << 40U)});  // of a queue that was destroyed
  daemon.announce(abi::CompletionEvent{cq_cookie});
  ibv_cq* told = nullptr;
  void* told_context = nullptr;
  ASSERT_EQ(ibv_get_cq_event(channel, &told, &told_context), 0);
  EXPECT_EQ(told, cq);
  EXPECT_EQ(told_context, this);
  fcntl(channel->fd, F_SETFL, O_NONBLOCK);
  EXPECT_EQ(ibv_get_cq_event(channel, &told, &told_context), -1);
  EXPECT_EQ(errno, EAGAIN);
  ibv_ack_cq_events(cq, 1);
}

TEST_F(Completion, DestructionWaitsForAcknowledgement) {
  ibv_cq* second = ibv_create_cq(context, 4, nullptr, channel, 0);
  daemon.announce(abi::CompletionEvent{daemon.last_cookie()});
  ibv_cq* told = nullptr;
  void* told_context = nullptr;
  ASSERT_EQ(ibv_get_cq_event(channel, &told, &told_context), 0);
  ASSERT_EQ(told, second);
  std::thread destroyer([&] { EXPECT_EQ(ibv_destroy_cq(second), 0); });
  ibv_ack_cq_events(second, 1);
  destroyer.join();
}

TEST_F(Completion, AChannelInUseIsBusy) { EXPECT_EQ(ibv_destroy_comp_channel(channel), EBUSY); }

TEST_F(Completion, ABrokenQueueReportsIt) {
  daemon.complete(completion(1));
  daemon.cq().overrun.store(1);
  ibv_wc wc{};
  EXPECT_EQ(ibv_poll_cq(cq, 1, &wc), 1);
  EXPECT_LT(ibv_poll_cq(cq, 1, &wc), 0);
  daemon.cq().overrun.store(0);
}

// Two threads that resize one queue mustn't commit each other's ring.
TEST_F(Completion, IsResizedByOneThreadAtATime) {
  constexpr int kTimes = 300;
  const auto resize_often = [&] {
    for (int i = 0; i < kTimes; ++i) {
      EXPECT_EQ(ibv_resize_cq(cq, FakeDaemon::kEntries), 0);
    }
  };
  std::thread other(resize_often);
  resize_often();
  other.join();
  EXPECT_EQ(daemon.mixed_resizes(), 0U);
}

TEST_F(Completion, PollsAnExtendedQueueInPlace) {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 4;
  attr.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM;
  ibv_cq_ex* extended = ibv_create_cq_ex(context, &attr);
  ASSERT_NE(extended, nullptr);
  ibv_poll_cq_attr poll{};
  EXPECT_EQ(ibv_start_poll(extended, &poll), ENOENT);
  daemon.complete(completion(1));
  daemon.complete(completion(2));
  ASSERT_EQ(ibv_start_poll(extended, &poll), 0);
  EXPECT_EQ(extended->wr_id, 1U);
  EXPECT_EQ(ibv_wc_read_byte_len(extended), 100U);
  EXPECT_EQ(ibv_wc_read_completion_ts(extended), 5'000U);
  const Time started = read_clock(CLOCK_REALTIME) - monotonic_now();
  EXPECT_NEAR(static_cast<double>(ibv_wc_read_completion_wallclock_ns(extended)),
              static_cast<double>(started + 5'000), 1e9);
  ASSERT_EQ(ibv_next_poll(extended), 0);
  EXPECT_EQ(extended->wr_id, 2U);
  EXPECT_EQ(ibv_wc_read_imm_data(extended), 0x01020304U);
  EXPECT_EQ(ibv_next_poll(extended), ENOENT);
  ibv_end_poll(extended);
  EXPECT_EQ(daemon.cq().ring.consumer.value.load(), 2U);
  daemon.complete(completion(3));
  ibv_wc wc{};
  EXPECT_EQ(ibv_poll_cq(ibv_cq_ex_to_cq(extended), 1, &wc), 1);  // the plain call works too
  EXPECT_EQ(wc.wr_id, 3U);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(extended)), 0);
}

// With cards only destroying and resetting a queue pair, and resizing, wait for the queue's lock.
TEST_F(Completion, WorkIsPostedAndTheQueueArmedWhileItIsPolled) {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 4;
  ibv_cq_ex* extended = ibv_create_cq_ex(context, &attr);
  ASSERT_NE(extended, nullptr);
  daemon.complete(completion(1));
  ibv_poll_cq_attr poll{};
  ASSERT_EQ(ibv_start_poll(extended, &poll), 0);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(qp, &wr, &bad), 0);
  EXPECT_EQ(ibv_req_notify_cq(ibv_cq_ex_to_cq(extended), 0), 0);
  ibv_end_poll(extended);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(extended)), 0);
}

class SingleThreaded : public Completion {
 protected:
  void SetUp() override {
    Completion::SetUp();
    ibv_cq_init_attr_ex attr{};
    attr.cqe = FakeDaemon::kEntries;
    attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
    attr.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
    extended_ = ibv_create_cq_ex(context, &attr);
    ASSERT_NE(extended_, nullptr);
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    ibv_cq* const plain = std::exchange(cq, ibv_cq_ex_to_cq(extended_));
    make_qp();
    cq = plain;
  }
  void TearDown() override {
    if (qp != nullptr) {
      EXPECT_EQ(ibv_destroy_qp(std::exchange(qp, nullptr)), 0);
    }
    EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(extended_)), 0);
    Completion::TearDown();
  }
  void complete_of_another(std::uint64_t id) {
    abi::Cqe cqe = completion(id);
    cqe.qp_num = FakeDaemon::kQpn + 1;
    daemon.complete(cqe);
  }

  ibv_cq_ex* extended_ = nullptr;
};

// A thread that reads a queue of its own may call any verb: the queue isn't locked.
TEST_F(SingleThreaded, AQueuePairIsDestroyedWhileItsCompletionIsRead) {
  daemon.complete(completion(1));
  complete_of_another(2);
  daemon.complete(completion(3));
  complete_of_another(4);
  ibv_poll_cq_attr poll{};
  ASSERT_EQ(ibv_start_poll(extended_, &poll), 0);
  EXPECT_EQ(extended_->wr_id, 1U);
  ASSERT_EQ(ibv_destroy_qp(std::exchange(qp, nullptr)), 0);
  EXPECT_EQ(ibv_wc_read_qp_num(extended_), FakeDaemon::kQpn);
  ASSERT_EQ(ibv_next_poll(extended_), 0);
  EXPECT_EQ(extended_->wr_id, 2U);
  EXPECT_EQ(ibv_wc_read_qp_num(extended_), FakeDaemon::kQpn + 1);
  ASSERT_EQ(ibv_next_poll(extended_), 0);
  EXPECT_EQ(extended_->wr_id, 4U);
  EXPECT_EQ(ibv_next_poll(extended_), ENOENT);
  ibv_end_poll(extended_);
  EXPECT_EQ(daemon.cq().ring.consumer.value.load(), 4U);
  // The daemon's next one follows those that moved up.
  complete_of_another(5);
  ASSERT_EQ(ibv_start_poll(extended_, &poll), 0);
  EXPECT_EQ(extended_->wr_id, 5U);
  ibv_end_poll(extended_);
}

TEST_F(SingleThreaded, IsResizedWhileACompletionIsRead) {
  daemon.complete(completion(1));
  ibv_poll_cq_attr poll{};
  ASSERT_EQ(ibv_start_poll(extended_, &poll), 0);
  ASSERT_EQ(ibv_resize_cq(ibv_cq_ex_to_cq(extended_), FakeDaemon::kEntries), 0);
  EXPECT_EQ(shim::of(extended_)->consumer, 1U);
  EXPECT_EQ(ibv_wc_read_byte_len(extended_), 100U);
  ibv_end_poll(extended_);
  EXPECT_EQ(daemon.cq().ring.consumer.value.load(), 1U);
}

TEST_F(SingleThreaded, IsPolledPlainlyWhileACompletionIsRead) {
  daemon.complete(completion(1));
  complete_of_another(2);
  daemon.complete(completion(3));
  ibv_poll_cq_attr poll{};
  ASSERT_EQ(ibv_start_poll(extended_, &poll), 0);
  ibv_wc wc{};
  ASSERT_EQ(ibv_poll_cq(ibv_cq_ex_to_cq(extended_), 1, &wc), 1);
  EXPECT_EQ(wc.wr_id, 2U);
  EXPECT_EQ(ibv_wc_read_qp_num(extended_), FakeDaemon::kQpn);
  ASSERT_EQ(ibv_next_poll(extended_), 0);
  EXPECT_EQ(extended_->wr_id, 3U);
  ibv_end_poll(extended_);
  EXPECT_EQ(daemon.cq().ring.consumer.value.load(), 3U);
}

}  // namespace
}  // namespace uroce::test
