#include "base/time/liveness.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "base/unique_fd.h"

namespace uroce {
namespace {

constexpr Duration kMillisecond = kNanosecondsPerMillisecond;
constexpr Duration kLook = 250 * kMillisecond;

struct LivenessTest : ::testing::Test {
  LivenessTest() { heartbeat.begin(); }
  // Checks every 250 ms for two seconds; `ran`: processor time per check.
  Duration look_for_two_seconds(char state, Duration ran) {
    Duration stuck = 0;
    for (int i = 0; i < 8; ++i) {
      processor_time += ran;
      stuck = liveness.check(now += kLook, ThreadState{state, processor_time});
    }
    return stuck;
  }

  Heartbeat heartbeat;
  Liveness liveness{heartbeat};
  Time now = kNanosecondsPerSecond;
  Duration processor_time = 3 * kNanosecondsPerSecond;
};

TEST_F(LivenessTest, WaitingInACallIsStuck) {
  liveness.check(now, ThreadState{'D', processor_time});
  EXPECT_EQ(look_for_two_seconds('D', 0), 2'000 * kMillisecond);
}

TEST_F(LivenessTest, RunningOnWithoutATurnIsStuck) {
  liveness.check(now, ThreadState{'R', processor_time});
  liveness.check(now, ThreadState{'R', processor_time});
  EXPECT_EQ(look_for_two_seconds('R', kLook), 2'000 * kMillisecond);
}

TEST_F(LivenessTest, ReadyButNotRunIsntStuck) {
  liveness.check(now, ThreadState{'R', processor_time});
  EXPECT_EQ(look_for_two_seconds('R', 0), 0U);
}

TEST_F(LivenessTest, BeatsAndRestsEndIt) {
  liveness.check(now, ThreadState{'S', processor_time});
  look_for_two_seconds('S', 0);
  heartbeat.beat();
  EXPECT_EQ(liveness.check(now += kLook, ThreadState{'S', processor_time}), 0U);
  heartbeat.rest();
  EXPECT_EQ(look_for_two_seconds('S', 0), 0U);
  heartbeat.beat();
  EXPECT_EQ(liveness.check(now += kLook, ThreadState{'S', processor_time}), 0U);
}

TEST_F(LivenessTest, TimeInWhichNobodyLookedCountsALittle) {
  liveness.check(now, ThreadState{'S', processor_time});
  now += 60 * kNanosecondsPerSecond;  // the process was stopped
  EXPECT_LE(liveness.check(now, ThreadState{'S', processor_time}), Liveness::kIntervalMax);
}

TEST(ThreadState, NamesTheCallThatAThreadWaitsIn) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  Heartbeat heartbeat;
  std::thread thread([&] {
    heartbeat.begin();
    char byte = 0;
    EXPECT_EQ(::read(reading.get(), &byte, 1), 0);
  });
  std::string text;
  while (text.find("(read)") == std::string::npos) {  // until it waits in the call
    text = describe_activity(heartbeat.thread());
    std::this_thread::yield();
  }
  EXPECT_EQ(text.find("waits in the system call"), 0U) << text;
  ASSERT_TRUE(thread_state(heartbeat.thread()));
  EXPECT_EQ(thread_state(heartbeat.thread())->state, 'S');
  writing.reset();
  thread.join();
  EXPECT_EQ(thread_state(0), std::nullopt);
}

}  // namespace
}  // namespace uroce
