#include "control/reports/watchdog.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "base/unique_fd.h"
#include "control/start/notify.h"

namespace uroce::control {
namespace {

// A thread that is blocked in a call, between two beats, for as long as the test likes.
class WaitingThread {
 public:
  WaitingThread() {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    reading_ = UniqueFd(ends[0]);
    writing_ = UniqueFd(ends[1]);
    thread_ = std::thread([this] {
      heartbeat.begin();
      char byte = 0;
      EXPECT_EQ(::read(reading_.get(), &byte, 1), 0);
      heartbeat.end();
    });
    while (describe_activity(heartbeat.thread()).find("(read)") == std::string::npos) {
      std::this_thread::yield();
    }
  }
  ~WaitingThread() { go_on(); }
  void go_on() {
    writing_.reset();
    if (thread_.joinable()) {
      thread_.join();
    }
  }

  Heartbeat heartbeat;

 private:
  UniqueFd reading_, writing_;
  std::thread thread_;
};

// Virtual time: checks `checks` times at the watchdog's own interval.
bool check(Watchdog& watchdog, Time* now, int checks) {
  bool alive = true;
  for (int i = 0; i < checks; ++i) {
    alive = watchdog.check(*now += Watchdog::kCheckInterval);
  }
  return alive;
}

TEST(Watchdog, NamesABlockedThreadUntilItGoesOn) {
  WaitingThread waiting;
  Watchdog watchdog;
  watchdog.watch("worker 0", waiting.heartbeat);
  Time now = kNanosecondsPerSecond;
  EXPECT_TRUE(check(watchdog, &now, 8));
  EXPECT_TRUE(watchdog.stuck().empty());  // not for two seconds yet
  EXPECT_FALSE(check(watchdog, &now, 2));
  ASSERT_EQ(watchdog.stuck().size(), 1U);
  const Watchdog::Stuck stuck = watchdog.stuck().front();
  EXPECT_EQ(stuck.name, "worker 0");
  EXPECT_EQ(stuck.thread, waiting.heartbeat.thread());
  EXPECT_NE(stuck.doing.find("(read)"), std::string::npos) << stuck.doing;
  waiting.go_on();
  EXPECT_TRUE(check(watchdog, &now, 1));
  EXPECT_TRUE(watchdog.stuck().empty());
}

TEST(Watchdog, AThreadThatMayBeLateIsNamedButDoesntEndTheDaemon) {
  WaitingThread waiting;
  Watchdog watchdog;
  watchdog.watch("flush", waiting.heartbeat, Watchdog::Need::kMayBeLate);
  Time now = kNanosecondsPerSecond;
  EXPECT_TRUE(check(watchdog, &now, 12));
  EXPECT_EQ(watchdog.stuck().size(), 1U);
}

TEST(Watchdog, ReportsThatAllThreadsLive) {
  std::atomic<int> told{0};  // outlives the watchdog's thread
  Heartbeat resting;
  Watchdog watchdog;
  watchdog.watch("control", resting);
  ASSERT_TRUE(watchdog.start(
      [&] {
        ++told;
        told.notify_all();
      },
      kNanosecondsPerMillisecond));
  for (int seen = 0; seen < 3; seen = told.load()) {
    told.wait(seen);
  }
}

TEST(Notify, NotifiesTheServiceManagerTwiceAsOftenAsRequired) {
  ::unsetenv("WATCHDOG_PID");
  ::setenv("WATCHDOG_USEC", "3000000", 1);
  EXPECT_EQ(notify_alive_interval(), 1'500 * kNanosecondsPerMillisecond);
  ::setenv("WATCHDOG_PID", "1", 1);
  EXPECT_EQ(notify_alive_interval(), 0U);  // meant for another process
  ::unsetenv("WATCHDOG_PID");
  ::setenv("WATCHDOG_USEC", "3s", 1);
  EXPECT_EQ(notify_alive_interval(), 0U);
  ::unsetenv("WATCHDOG_USEC");
  EXPECT_EQ(notify_alive_interval(), 0U);
}

}  // namespace
}  // namespace uroce::control
