// When a loop that polls an empty completion queue sleeps, and what wakes it.

#include <sys/resource.h>

#include <cerrno>
#include <thread>

#include "base/futex.h"
#include "base/time/monotonic_clock.h"
#include "tests/unit/shim/verbs_fixture.h"
#include "verbs_shim/rings/idle_polls.h"
#include "verbs_shim/rings/nap.h"

namespace uroce::test {
namespace {

constexpr abi::Cqe kSuccessful{};  // WcStatus::kSuccess is 0

long blockings() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;  // a yield doesn't count: the thread stays runnable
}

class IdlePolling : public VerbsFixture {
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
    daemon.complete(kSuccessful);
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
      shim::idle_polls.posted(0, under_way, shim::of(cq));
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

// The daemon's index is read with each post only then.
TEST_F(IdlePolling, KnowsExactlyWhatIsOutstandingWhereProcessorsAreShared) {
  const auto naps_after_post = [this] {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_SEND;
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_send(qp, &wr, &bad), 0);
    return naps(256);
  };
  constexpr std::uint32_t kMany = 64;
  daemon.send_ring().consumer.value.store(0U - kMany);  // so many before the first are outstanding
  EXPECT_EQ(naps_after_post(), 0);
  daemon.status().shared.store(1);
  EXPECT_GE(naps_after_post(), 1);
}

// The outstanding work completes at another queue than the one that is polled, which may get
// something meanwhile, and the worker doesn't know of a nap there.
TEST_F(IdlePolling, SleepsNoSoonerWithWorkOfAnotherQueue) {
  constexpr int kRounds = 100;
  const auto naps_beside = [&](const shim::Cq* completed_at) {
    long count = 0;
    for (int round = 0; round < kRounds; ++round) {
      find_one();
      shim::idle_polls.posted(0, 1'000, completed_at);
      count += naps(256);
    }
    return count;
  };
  daemon.status().shared.store(1);
  EXPECT_LT(naps_beside(nullptr), kRounds / 4);
  EXPECT_GT(naps_beside(shim::of(cq)), kRounds * 3 / 4);
}

class Nap : public VerbsFixture {
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
    daemon.complete(kSuccessful);
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
  daemon.complete(kSuccessful);
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
    shim::idle_polls.posted(0, under_way, shim::of(cq));
    return naps(kPolls);
  };
  daemon.status().beats.store(kAwake);
  EXPECT_LT(naps_with(1), 2);  // no other thread runs there: the worker is in a long turn
  daemon.status().shared.store(1);
  EXPECT_LT(naps_with(0), 2);  // nothing outstanding: it waits for messages of others
  EXPECT_GE(naps_with(1), 4);
  EXPECT_LT(naps_with(1'000), 2);
  find_one();
  shim::idle_polls.posted(0, 1, shim::of(cq));
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
  shim::idle_polls.posted(0, 1, shim::of(cq));
  EXPECT_LT(naps(kPolls), 2);  // the worker has nothing to do
  find_one();
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(qp, &wr, &bad), 0);
  EXPECT_EQ(daemon.wakes(), 1U);
  EXPECT_GE(naps(kPolls), 4);
}

}  // namespace
}  // namespace uroce::test
