#include "dataplane/engine/threads/cpu_shortage.h"

#include <gtest/gtest.h>

namespace uroce::test {
namespace {

constexpr Duration kMs = kNanosecondsPerMillisecond;
constexpr Time kStart = 1'000 * kMs;

// A thread that takes a turn every 100 us and runs for part of the time.
struct Thread {
  CpuShortage shortage{};
  Time now = kStart;
  CpuShortage::Usage usage{};
  bool steals = false;  // the rest of the time goes to a hypervisor, not to another thread
  bool is_short = false;
  bool slept = false;

  // As after a turn that found nothing.
  void sleep(Duration time) {
    shortage.sleeps(now);
    now += time;
    slept = true;
  }
  void turns(Duration time, Duration percent, int busy_of_ten = 10) {
    constexpr Duration kTurn = kMs / 10;
    int turn = 0;
    for (const Time end = now + time; now < end;) {
      now += kTurn;
      usage.ran += kTurn * percent / 100;
      usage.displaced += percent < 100 && !steals ? 1 : 0;
      const bool busy = turn++ % 10 < busy_of_ten && !slept;
      slept = false;
      is_short = shortage.turn_begins(now, busy, [this] { return usage; });
    }
  }
};

TEST(CpuShortage, NoneIfItRunsWheneverItWants) {
  Thread thread;
  thread.turns(50 * kMs, 100);
  EXPECT_FALSE(thread.is_short);
  thread.turns(50 * kMs, 90);
  EXPECT_FALSE(thread.is_short);
}

TEST(CpuShortage, WaitingHalfOfTheTimeIsOne) {
  Thread thread;
  thread.turns(50 * kMs, 100);
  thread.turns(3 * CpuShortage::kPeriod, 50);
  EXPECT_TRUE(thread.is_short);
}

// A worker yields whenever it finds nothing, and programs use that time.
TEST(CpuShortage, NoneIfTheWorkerHasLittleToDo) {
  Thread thread;
  thread.turns(50 * kMs, 50, 3);
  EXPECT_FALSE(thread.is_short);
  thread.turns(50 * kMs, 50, 7);
  EXPECT_TRUE(thread.is_short);
}

// Sharing doesn't depend on how much the worker itself has to do.
TEST(CpuShortage, ReportsASharedProcessorWhenDisplacedRepeatedly) {
  Thread thread;
  thread.turns(50 * kMs, 97, 1);
  EXPECT_FALSE(thread.shortage.shares(thread.now));
  thread.turns(CpuShortage::kPeriod, 90, 1);
  EXPECT_FALSE(thread.shortage.shares(thread.now));  // once may be chance
  thread.turns(3 * CpuShortage::kPeriod, 90, 1);
  EXPECT_TRUE(thread.shortage.shares(thread.now));
  EXPECT_FALSE(thread.is_short);
  thread.turns(CpuShortage::kHoldShared - 2 * CpuShortage::kPeriod, 100, 1);
  EXPECT_TRUE(thread.shortage.shares(thread.now));
  thread.turns(3 * CpuShortage::kPeriod, 100, 1);
  EXPECT_FALSE(thread.shortage.shares(thread.now));
}

TEST(CpuShortage, StealTimeIsNeitherSharingNorShortage) {
  Thread thread{.steals = true};
  thread.turns(50 * kMs, 50);
  EXPECT_FALSE(thread.shortage.shares(thread.now));
  EXPECT_FALSE(thread.is_short);
}

// The work after a sleep may take most of the time for which the worker was awake, while others
// run.
TEST(CpuShortage, NoneIfTheWorkerSleepsAfterEachMessage) {
  Thread thread;
  thread.turns(50 * kMs, 100);
  for (int i = 0; i < 200; ++i) {
    thread.sleep(kMs);
    thread.turns(kMs / 2, 50);
    ASSERT_FALSE(thread.is_short);
  }
  EXPECT_TRUE(thread.shortage.shares(thread.now));
}

TEST(CpuShortage, IsHeldForAWhileAndEnds) {
  Thread thread;
  thread.turns(50 * kMs, 50);
  thread.turns(CpuShortage::kHold - 2 * CpuShortage::kPeriod, 100);
  EXPECT_TRUE(thread.is_short);
  thread.turns(3 * CpuShortage::kPeriod, 100);
  EXPECT_FALSE(thread.is_short);
}

TEST(CpuShortage, SleepIsNotAShortage) {
  Thread thread;
  thread.turns(50 * kMs, 100);
  for (int i = 0; i < 20; ++i) {
    thread.sleep(10 * kMs);
    thread.turns(kMs, 100);
    ASSERT_FALSE(thread.is_short);
  }
  EXPECT_FALSE(thread.shortage.shares(thread.now));
}

}  // namespace
}  // namespace uroce::test
