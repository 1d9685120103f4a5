#include "base/sockets/event_throttle.h"

#include <gtest/gtest.h>

namespace uroce::test {
namespace {

constexpr Duration kMillisecond = kNanosecondsPerMillisecond;

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
  // Of each of the ten the first event couldn't be known, and the second had its processor time
  // measured.
  EXPECT_LE(spent, 10 * 2 * 2 * kMillisecond + end / EventThrottle::kShare + 2 * kMillisecond);
  EXPECT_GE(spent, end / EventThrottle::kShare / 2);
}

TEST(EventThrottle, AChannelThatGetsCheapIsForgiven) {
  EventThrottle pace;
  pace.note(7, 1, kMillisecond);
  pace.note(7, 2, kMillisecond);
  EXPECT_FALSE(pace.permits(7, 2 * kMillisecond));
  EXPECT_TRUE(pace.permits(7, 40 * kMillisecond));
  pace.note(7, 40 * kMillisecond, 1);
  pace.note(8, 41 * kMillisecond, kMillisecond);
  pace.note(8, 42 * kMillisecond, kMillisecond);
  EXPECT_TRUE(pace.permits(7, 43 * kMillisecond));
  EXPECT_FALSE(pace.permits(8, 43 * kMillisecond));
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
