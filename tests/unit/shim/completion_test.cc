#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>

#include <cerrno>
#include <thread>
#include <utility>

#include "base/futex.h"
#include "base/time/monotonic_clock.h"
#include "tests/unit/shim/verbs_fixture.h"
#include "verbs_shim/rings/idle_polls.h"
#include "verbs_shim/rings/nap.h"

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

long blockings() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;  // a yield doesn't count: the thread stays runnable
}

class IdlePolling : public Completion {
 protected:
  // How often this thread went to sleep in so many empty polls.
  long naps(int polls) {
    ibv_wc wc;
    const long before = blockings();
    for (int i = 0; i < polls; ++i) {
      EXPECT_EQ(ibv_poll_cq(cq, 1, &wc), 0);
    }
    return blockings() - before;
  }
  void find_one() {
    ibv_wc wc;
    daemon.complete(completion(1));
    ASSERT_EQ(ibv_poll_cq(cq, 1, &wc), 1);
  }
};

// A polling loop that has a processor to itself can't help a daemon that waits for another one.
TEST_F(IdlePolling, SleepsWhileTheDaemonLacksAProcessor) {
  constexpr int kPolls = 512 + 16 * 20;
  EXPECT_LT(naps(kPolls), 5);
  daemon.status().crowded.store(1);
  find_one();
  EXPECT_GE(naps(kPolls), 20);
  find_one();
  daemon.status().crowded.store(0);
  EXPECT_LT(naps(kPolls), 5);
}

// With one message outstanding the program waits for that one; with many, it gets several at once.
TEST_F(IdlePolling, SleepsSoonerWithManyOutstanding) {
  constexpr int kFew = 256;  // polls after which no loop would nap otherwise
  constexpr int kRounds = 200;
  const auto naps_with = [&](std::uint32_t under_way) {
    long count = 0;
    for (int round = 0; round < kRounds; ++round) {
      shim::idle_polls.posted(0, under_way, under_way, shim::of(cq));
      find_one();
      count += naps(kFew);
    }
    return count;
  };
  EXPECT_LT(naps_with(1'000), kRounds / 10);
  daemon.status().shared.store(1);
  EXPECT_LT(naps_with(1), kRounds / 10);
  // After a nap in which nothing completed, it doesn't sleep again: one nap per round.
  const long many = naps_with(1'000);
  EXPECT_GT(many, kRounds * 3 / 4);
  EXPECT_LT(many, kRounds * 5 / 4);
}

// A burst, all of which was found completed, and one message: what the ring seems to hold includes
// the burst.
TEST_F(IdlePolling, SleepsNoSoonerWithOneAfterMany) {
  constexpr std::uint32_t kMany = 64;
  constexpr int kRounds = 100;
  daemon.status().shared.store(1);
  long count = 0;
  for (int round = 0; round < kRounds; ++round) {
    shim::idle_polls.posted(0, kMany, kMany, shim::of(cq));
    shim::idle_polls.found(kMany);
    shim::idle_polls.posted(0, 1, kMany / 2, shim::of(cq));
    count += naps(256);
  }
  EXPECT_LT(count, kRounds / 10);
}

// The outstanding work completes at another queue than the one that is polled, which may get
// something meanwhile, and the worker doesn't know of a nap there.
TEST_F(IdlePolling, SleepsNoSoonerWithWorkOfAnotherQueue) {
  constexpr int kRounds = 100;
  const auto naps_beside = [&](const shim::Cq* completed_at) {
    long count = 0;
    for (int round = 0; round < kRounds; ++round) {
      find_one();
      shim::idle_polls.posted(0, 1'000, 1'000, completed_at);
      count += naps(256);
    }
    return count;
  };
  daemon.status().shared.store(1);
  EXPECT_LT(naps_beside(nullptr), kRounds / 4);
  EXPECT_GT(naps_beside(shim::of(cq)), kRounds * 3 / 4);
}

class Nap : public Completion {
 protected:
  static constexpr Duration kLong = 10 * kNanosecondsPerSecond;
  std::atomic<std::uint32_t>& word() { return daemon.cq().ring.producer.nap.asleep; }
  Duration since_begun() const { return monotonic_now() - begun_; }

 private:
  const Time begun_ = monotonic_now();
};

TEST_F(Nap, EndsWhenTheDaemonWakesIt) {
  std::thread worker([this] {
    while (word().load() == 0 && since_begun() < kLong) {
      std::this_thread::yield();
    }
    EXPECT_EQ(daemon.cq().ring.producer.nap.until.load(), 5U);
    daemon.complete(completion(1));
    word().store(0);
    futex_wake(word(), FutexScope::kShared);
  });
  errno = EDOM;
  EXPECT_TRUE(shim::nap(*shim::of(cq), 5, kLong));
  EXPECT_EQ(errno, EDOM);
  EXPECT_LT(since_begun(), kLong);
  worker.join();
}

TEST_F(Nap, IsSkippedIfSomethingCompleted) {
  daemon.complete(completion(1));
  EXPECT_TRUE(shim::nap(*shim::of(cq), 2, kLong));
  EXPECT_LT(since_begun(), kLong);
}

TEST_F(Nap, EndsByTimeout) {
  EXPECT_FALSE(shim::nap(*shim::of(cq), 1, kNanosecondsPerMillisecond));
  EXPECT_GE(since_begun(), kNanosecondsPerMillisecond);
}

// Another thread occupies the worker's processor.
TEST_F(IdlePolling, SleepsWhenTheWorkerOfALoneMessageCannotRun) {
  constexpr int kLook = 256, kPolls = 8 * kLook;
  constexpr std::uint64_t kAwake = 40;
  const auto naps_with = [&](std::uint32_t under_way) {
    find_one();
    shim::idle_polls.posted(0, under_way, under_way, shim::of(cq));
    return naps(kPolls);
  };
  daemon.status().beats.store(kAwake);
  EXPECT_LT(naps_with(1), 2);  // no other thread runs there: the worker is in a long turn
  daemon.status().shared.store(1);
  EXPECT_LT(naps_with(0), 2);  // nothing outstanding: it waits for messages of others
  EXPECT_GE(naps_with(1), 4);
  EXPECT_LT(naps_with(1'000), 2);
  find_one();
  shim::idle_polls.posted(0, 1, 1, shim::of(cq));
  long naps_of_who_runs = 0;
  for (std::uint64_t turn = 1; turn <= 10; ++turn) {
    daemon.status().beats.store(kAwake + 2 * turn);
    naps_of_who_runs += naps(kLook);
  }
  EXPECT_LT(naps_of_who_runs, 3);
}

TEST_F(IdlePolling, SleepsWhenAWokenWorkerCannotRun) {
  constexpr int kPolls = 8 * 256;
  daemon.status().shared.store(1);
  daemon.status().asleep.store(1);
  daemon.status().beats.store(41);
  find_one();
  shim::idle_polls.posted(0, 1, 1, shim::of(cq));
  EXPECT_LT(naps(kPolls), 2);  // the worker has nothing to do
  find_one();
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(qp, &wr, &bad), 0);
  EXPECT_EQ(daemon.wakes(), 1U);
  EXPECT_GE(naps(kPolls), 4);
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
