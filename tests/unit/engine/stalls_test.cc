#include "dataplane/engine/turn/stalls.h"

#include <gtest/gtest.h>

#include "tests/unit/engine/worker_fixture.h"

namespace uroce::test {
namespace {

constexpr Duration kStallMs = kNanosecondsPerMillisecond;
constexpr std::uint64_t kUser = 7;
constexpr std::uint64_t kOtherUser = 8;

// What usage() returns.
Stalls::Usage there;
// How much each reading adds to the one before.
Stalls::Usage each_later;

Stalls::Usage usage() {
  there.now += each_later.now;
  there.waits += each_later.waits;
  there.faults += each_later.faults;
  return there;
}

class StallsTest : public testing::Test {
 protected:
  StallsTest() {
    there = {.now = 1'000 * kStallMs, .waits = 100, .faults = 10};
    each_later = {};
    stalls_.was_descheduled(there.now, Stalls::kNoticed);
  }

  // A turn in which the user's part took this long; returns whether it counts as a stall.
  bool serve(std::uint64_t user, Duration took, std::uint64_t waits = 1, std::uint64_t faults = 1) {
    stalls_.charge_to(user);
    there.now += took;
    there.waits += waits;
    there.faults += faults;
    const std::uint64_t before = stalls_.count();
    stalls_.turn_ends();
    return stalls_.count() != before;
  }

  Stalls stalls_{usage};
};

TEST_F(StallsTest, WatchesOnlyAfterALateTurnAndForAWhile) {
  EXPECT_TRUE(stalls_.watches(there.now + Stalls::kWatched - 1));
  EXPECT_FALSE(stalls_.watches(there.now + Stalls::kWatched));
  Stalls other(usage);
  other.was_descheduled(there.now, Stalls::kNoticed - 1);
  EXPECT_FALSE(other.watches(there.now));
}

TEST_F(StallsTest, AUserIsRefused32TimesAsLongAsItStalledBeyondTheAllowance) {
  EXPECT_TRUE(serve(kUser, 300 * kStallMs));
  EXPECT_TRUE(stalls_.refuses(kUser, there.now));
  EXPECT_FALSE(stalls_.refuses(kOtherUser, there.now));
  const Duration paid_in = (300 * kStallMs - Stalls::kAllowance) * Stalls::kShare;
  EXPECT_TRUE(stalls_.refuses(kUser, there.now + paid_in - kStallMs));
  EXPECT_FALSE(stalls_.refuses(kUser, there.now + paid_in));
  EXPECT_EQ(stalls_.count(), 1U);
  EXPECT_EQ(stalls_.total(), 300 * kStallMs);
}

TEST_F(StallsTest, AFewShortWaitsAreAllowed) {
  EXPECT_TRUE(serve(kUser, 40 * kStallMs));
  EXPECT_TRUE(serve(kUser, 40 * kStallMs));
  EXPECT_FALSE(stalls_.refuses(kUser, there.now));
  EXPECT_TRUE(serve(kUser, 40 * kStallMs));
  EXPECT_TRUE(stalls_.refuses(kUser, there.now));
}

TEST_F(StallsTest, TimeWithoutTheProcessorIsNoStall) {
  EXPECT_FALSE(serve(kUser, 900 * kStallMs, 0));
  EXPECT_FALSE(stalls_.refuses(kUser, there.now));
  EXPECT_FALSE(serve(kUser, Stalls::kMin - 1));
}

TEST_F(StallsTest, TimeInWhichTheProcessWasStoppedIsNoStall) {
  EXPECT_FALSE(serve(kUser, 900 * kStallMs, 1, 0));
  EXPECT_FALSE(stalls_.refuses(kUser, there.now));
}

TEST_F(StallsTest, EachUserIsChargedForItsOwnPartOfATurn) {
  stalls_.charge_to(kOtherUser);
  there.now += kStallMs;
  stalls_.charge_to(kUser);
  stalls_.charge_to(kUser);  // its next packet
  there.now += 200 * kStallMs;
  ++there.waits;
  ++there.faults;
  stalls_.charge_to(kOtherUser);
  stalls_.turn_ends();
  EXPECT_EQ(stalls_.count(), 1U);
  EXPECT_TRUE(stalls_.refuses(kUser, there.now));
  EXPECT_FALSE(stalls_.refuses(kOtherUser, there.now));
}

TEST_F(StallsTest, CommonWorkIsChargedToNobody) {
  EXPECT_TRUE(serve(Stalls::kNoUser, 900 * kStallMs));
  EXPECT_EQ(stalls_.count(), 1U);
  EXPECT_FALSE(stalls_.refuses(Stalls::kNoUser, there.now));
}

TEST_F(StallsTest, DebtsAndDebtorsAreBounded) {
  serve(kUser, 100'000 * kStallMs);
  EXPECT_FALSE(stalls_.refuses(kUser, there.now + Stalls::kDebtMax * Stalls::kShare));
  // The smallest debtor makes room.
  for (std::uint64_t user = 100; user < 100 + Stalls::kUsersMax; ++user) {
    serve(user, (user == 100 ? 150 : 200) * kStallMs);
  }
  EXPECT_FALSE(stalls_.refuses(100, there.now));
  EXPECT_TRUE(stalls_.refuses(101, there.now));
  EXPECT_TRUE(stalls_.refuses(kUser, there.now));
}

// a and b, whose memory stalled b's worker once, beside a queue pair of another user or alone.
class StalledWorker : public testing::Test {
 protected:
  StalledWorker() {
    there = {.now = stations_.now};
    each_later = {};
  }

  // While it handles the WRITE's only packet.
  void stall_in_a_write() {
    stations_.post_write(1, 8);
    stations_.b.worker.was_descheduled(Stalls::kNoticed);
    each_later = {.now = 500 * kStallMs, .waits = 1, .faults = 1};
    stations_.settle();
    each_later = {};
    ASSERT_TRUE(stations_.pair.a.poll_send());
    // Work done for all users stalls for as long, and is charged to nobody.
    ASSERT_GT(stations_.b.worker.counters().stalls, 1U);
    ASSERT_GT(stations_.b.worker.counters().stalled_us, 500'000U);
    stations_.now = there.now;
  }

  void post_from_b() {
    const abi::Sge sge = stations_.pair.b.sge(0, 8);
    stations_.pair.b.post_send(rdma_wr(3, abi::WrOpcode::kRdmaWrite, stations_.pair.a, 0),
                               {&sge, 1});
    stations_.b.ring();
  }

  // The time at which the next work request of `from` succeeds; kNever: it failed, or hasn't
  // completed by `latest`.
  Time success_at(Endpoint& from, Time latest) {
    for (; stations_.now < latest; stations_.now += kStallMs) {
      stations_.settle();
      if (const std::optional<abi::Cqe> ended = from.poll_send()) {
        return ended->status == abi::WcStatus::kSuccess ? stations_.now : kNever;
      }
    }
    return kNever;
  }

  PagingQueues paging_{1, {}};
  Stations stations_{{}, {}, &paging_, nullptr, usage};
};

TEST_F(StalledWorker, ServesOthersFirstAndThePeerRetries) {
  // Given a queue pair of another user on b's worker,
  QpConfig other;
  other.qpn = 99;
  other.user = kOtherUser;
  Qp bystander(other);
  stations_.b.worker.add_qp(bystander);
  stall_in_a_write();
  // when a sends a request and b has one to send itself, both are put off,
  stations_.post_write(2, 8);
  post_from_b();
  stations_.settle();
  EXPECT_FALSE(stations_.pair.a.poll_send());
  EXPECT_FALSE(stations_.pair.b.poll_send());
  // and done once the time is paid back, be it for one step or for several.
  const Time earliest = stations_.now + (500 * kStallMs - Stalls::kAllowance) * Stalls::kShare;
  const Time latest = stations_.now + Stalls::kDebtMax * Stalls::kShare;
  const Time a_done = success_at(stations_.pair.a, latest);
  EXPECT_GE(a_done, earliest);
  EXPECT_NE(a_done, kNever);
  EXPECT_NE(success_at(stations_.pair.b, latest), kNever);
  stations_.b.worker.remove_qp(bystander);
}

// Control ran a task in the worker's place, and then the worker slept on.
TEST_F(StalledWorker, SleepAfterABorrowedTaskIsNoStall) {
  stations_.b.worker.was_descheduled(Stalls::kNoticed);
  stations_.b.worker.modify_qp(stations_.pair.b.qp(), {}, 0);
  stations_.b.worker.task_ends();
  there.now += 900 * kStallMs;
  ++there.waits;
  ++there.faults;
  stations_.now = there.now;
  stations_.settle();
  EXPECT_EQ(stations_.b.worker.counters().stalls, 0U);
}

TEST_F(StalledWorker, ServesADebtorThatIsAlone) {
  stall_in_a_write();
  stations_.post_write(2, 8);
  stations_.settle();
  EXPECT_TRUE(stations_.pair.a.poll_send());
}

}  // namespace
}  // namespace uroce::test
