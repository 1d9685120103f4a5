#include "base/sockets/event_throttle.h"

#include <gtest/gtest.h>

namespace uroce::test {
namespace {

constexpr Duration kMillisecond = kNanosecondsPerMillisecond;

void make_costly(EventThrottle& pace, int channel, Time now) {
  for (int event = 0; event < 3; ++event) {
    pace.note(channel, now, kMillisecond);
  }
}

TEST(EventThrottle, DearChannelsShareAPartOfTheTime) {
  EventThrottle pace;
  constexpr int kCheap = 5;
  Duration spent = 0;
  Time now = 1;
  const Time end = kNanosecondsPerSecond;
  int costly = 100;
  while (now < end) {
    EXPECT_TRUE(pace.permits(kCheap, now));
    now += kNanosecondsPerMicrosecond;
    pace.note(kCheap, now, kNanosecondsPerMicrosecond);
    if (pace.permits(costly, now)) {
      now += 2 * kMillisecond;
      pace.note(costly, now, 2 * kMillisecond);
      spent += 2 * kMillisecond;
      costly = 100 + (costly + 1) % 10;
    }
  }
  // Of each of the ten the first event couldn't be known, and of two more the processor time was
  // measured.
  EXPECT_LE(spent, 10 * 3 * 2 * kMillisecond + end / EventThrottle::kShare + 2 * kMillisecond);
  EXPECT_GE(spent, end / EventThrottle::kShare / 2);
}

TEST(EventThrottle, AChannelThatGetsCheapIsForgiven) {
  EventThrottle pace;
  make_costly(pace, 7, 2);
  EXPECT_FALSE(pace.permits(7, 2 * kMillisecond));
  EXPECT_TRUE(pace.permits(7, 40 * kMillisecond));
  pace.note(7, 40 * kMillisecond, 1);
  make_costly(pace, 8, 42 * kMillisecond);
  EXPECT_TRUE(pace.permits(7, 43 * kMillisecond));
  EXPECT_FALSE(pace.permits(8, 43 * kMillisecond));
}

// The processor time of the second long event included what a hypervisor took, or interrupts.
TEST(EventThrottle, ASecondEventThatTookLongDelaysByNoMoreThanItTook) {
  EventThrottle pace;
  pace.note(7, 4 * kMillisecond, 4 * kMillisecond);
  pace.note(7, 6 * kMillisecond, 2 * kMillisecond);
  EXPECT_FALSE(pace.permits(7, 7 * kMillisecond));
  EXPECT_TRUE(pace.permits(7, 8 * kMillisecond));
  make_costly(pace, 8, 8 * kMillisecond);
  EXPECT_TRUE(pace.permits(7, 9 * kMillisecond)) << "it doesn't share the costly ones' part";
  pace.note(7, 9 * kMillisecond, 3 * kNanosecondsPerMicrosecond);
  EXPECT_TRUE(pace.permits(7, 9 * kMillisecond));
  EXPECT_FALSE(pace.measures_cpu_time(7));
}

// The thread was taken off the processor in the middle of one event, for a turn of the scheduler's.
TEST(EventThrottle, OneEventThatTookLongKeepsNobodyWaiting) {
  EventThrottle pace;
  pace.note(7, 5 * kMillisecond, 4 * kMillisecond);
  EXPECT_TRUE(pace.permits(7, 5 * kMillisecond));
  EXPECT_TRUE(pace.measures_cpu_time(7));
  pace.note(7, 15 * kMillisecond, 3 * kNanosecondsPerMicrosecond);  // on the processor
  EXPECT_TRUE(pace.permits(7, 15 * kMillisecond));
  EXPECT_FALSE(pace.measures_cpu_time(7));
}

}  // namespace
}  // namespace uroce::test
