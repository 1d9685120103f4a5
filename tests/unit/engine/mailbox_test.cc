#include "dataplane/engine/threads/mailbox.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "base/time/liveness.h"
#include "base/time/monotonic_clock.h"
#include "base/unique_fd.h"
#include "dataplane/engine/engine.h"
#include "dataplane/port/frame_pool.h"

namespace uroce::test {
namespace {

// A worker with a task that blocks in a system call for as long as the test wants.
class MailboxTest : public testing::Test {
 protected:
  MailboxTest() {
    EXPECT_TRUE(engine_.start());
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    reading_ = UniqueFd(ends[0]);
    writing_ = UniqueFd(ends[1]);
  }
  ~MailboxTest() override { go_on(); }
  void given_a_stuck_worker() {
    stuck_ = std::thread([this] {
      engine_.call_on_thread(0, [this](Worker&) {
        char byte = 0;
        EXPECT_EQ(::read(reading_.get(), &byte, 1), 0);
      });
    });
    while (describe_activity(engine_.heartbeat(0).thread()).find("(read)") == std::string::npos) {
      std::this_thread::yield();
    }
  }
  void go_on() {
    writing_.reset();
    if (stuck_.joinable()) {
      stuck_.join();
    }
  }

  Quiescence quiescence_;
  KeyTable keys_{quiescence_, 64, 1};
  Engine engine_{{.workers = 1, .idle = IdlePolicy::kPoll}, {}, keys_, quiescence_};
  UniqueFd reading_, writing_;
  std::thread stuck_;
};

TEST_F(MailboxTest, ATaskThatAStuckWorkerDoesntTakeIsWithdrawnAndNeverRuns) {
  given_a_stuck_worker();
  bool ran = false;
  EXPECT_FALSE(engine_.try_call(0, [&](Worker&) { ran = true; }));
  go_on();
  bool ran_later = false;
  EXPECT_TRUE(
      engine_.try_call(0, [&](Worker&) { ran_later = true; }));  // queued after the other one
  EXPECT_FALSE(ran);
  EXPECT_TRUE(ran_later);
}

// It can't be withdrawn any more, and may take as long as any other: the worker may have to page in
// from a disk.
TEST_F(MailboxTest, ATaskThatWasTakenIsWaitedFor) {
  EXPECT_TRUE(engine_.try_call(0, [](Worker&) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(2 * Mailbox::kStuckMaxLooking));
  }));
}

TEST_F(MailboxTest, ManyWithdrawnTasksFillTheRingAndDrainAgain) {
  given_a_stuck_worker();
  std::vector<std::thread> callers;
  std::atomic<std::uint32_t> withdrawn{0};
  for (std::uint32_t i = 0; i < Mailbox::kTasksMax + 2; ++i) {
    callers.emplace_back([&] { withdrawn += engine_.try_call(0, [](Worker&) {}) ? 0 : 1; });
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
  EXPECT_EQ(withdrawn, Mailbox::kTasksMax + 2);
  go_on();
  EXPECT_TRUE(engine_.try_call(0, [](Worker&) {}));
}

TEST(Mailbox, AWorkerInTheKernelGetsLongerIfGivingUpEndsTheDaemon) {
  const ThreadState waits{.state = 'S'}, in_kernel{.state = 'D'};
  EXPECT_TRUE(Mailbox::is_stuck_too_long(Mailbox::kStuckMax, Mailbox::kStuckMax, waits));
  EXPECT_TRUE(Mailbox::is_stuck_too_long(Mailbox::kStuckMax, Mailbox::kStuckMax, std::nullopt));
  EXPECT_FALSE(Mailbox::is_stuck_too_long(Mailbox::kStuckMax, Mailbox::kStuckMax, in_kernel));
  EXPECT_TRUE(
      Mailbox::is_stuck_too_long(Mailbox::kStuckInKernelMax, Mailbox::kStuckMax, in_kernel));
  EXPECT_TRUE(
      Mailbox::is_stuck_too_long(Mailbox::kStuckMaxLooking, Mailbox::kStuckMaxLooking, in_kernel));
}

// A port on which nothing can be sent as long as the test wants.
class ClosedPort final : public Port {
 public:
  std::uint32_t rx_burst(std::uint16_t, Frame**, std::uint32_t, Time) override { return 0; }
  std::uint32_t tx_burst(std::uint16_t, Frame** frames, std::uint32_t count, Time) override {
    release(frames, count);
    sent += count;
    return count;
  }
  std::uint32_t allocate(Frame** frames, std::uint32_t count) override {
    return open ? pool_.allocate(frames, count) : 0;
  }
  void release(Frame** frames, std::uint32_t count) override { pool_.release(frames, count); }
  [[nodiscard]] PortInfo info() const override { return {}; }
  [[nodiscard]] PortCounters counters() const override { return {}; }
  bool open = true;
  std::uint32_t sent = 0;

 private:
  FramePool pool_{512, 2'000};
};

// A worker with two ports, in virtual time.
class MailboxFramesTest : public testing::Test {
 protected:
  void given_frames(std::uint16_t port, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      ASSERT_TRUE(mailbox_.send_frame(port, std::vector<std::byte>(60, std::byte{0xFF})));
    }
  }
  bool turn() {
    const bool busy = mailbox_.send_frames(worker_, now_);
    worker_.poll(now_);
    return busy;
  }

  ClosedPort first_, second_;
  Quiescence quiescence_;
  KeyTable keys_{quiescence_, 16, 1};
  Worker worker_{{.ports = {&first_, &second_}, .keys = &keys_}};
  abi::WorkerStatus status_{};
  Wakeup wakeup_{&status_};
  Heartbeat heartbeat_;
  Mailbox mailbox_{wakeup_, heartbeat_};
  Time now_ = monotonic_now();
};

// The connections of a program that died end together: hundreds of frames at once.
TEST_F(MailboxFramesTest, MoreFramesThanATurnTakesLeaveInLaterTurns) {
  given_frames(0, Mailbox::kFramesMax);
  EXPECT_TRUE(turn());
  EXPECT_EQ(first_.sent, kTurnBurst);
  EXPECT_FALSE(mailbox_.empty());
  while (turn()) {
  }
  EXPECT_EQ(first_.sent, Mailbox::kFramesMax);
  EXPECT_TRUE(mailbox_.empty());
  EXPECT_EQ(worker_.counters().tx_lost, 0U);
}

TEST_F(MailboxFramesTest, ARefusedFrameKeepsTheWorkerAwake) {
  first_.open = false;
  given_frames(0, 1);
  EXPECT_TRUE(turn());
  EXPECT_TRUE(turn());
  EXPECT_FALSE(mailbox_.empty());
  first_.open = true;
  EXPECT_TRUE(turn());
  EXPECT_EQ(first_.sent, 1U);
  EXPECT_FALSE(turn());
  EXPECT_TRUE(mailbox_.empty());
}

TEST_F(MailboxFramesTest, APortThatTakesNothingHoldsUpOthersForALimitedTime) {
  first_.open = false;
  given_frames(0, 100);
  given_frames(1, 1);
  EXPECT_TRUE(turn());
  EXPECT_EQ(second_.sent, 0U);
  now_ = monotonic_now() + Mailbox::kFrameWaitMax;
  EXPECT_TRUE(turn());
  EXPECT_EQ(second_.sent, 1U);
  EXPECT_EQ(worker_.counters().tx_lost, 100U);
  EXPECT_FALSE(turn());
}

TEST_F(MailboxFramesTest, FramesWithoutAPlaceAreCounted) {
  given_frames(0, Mailbox::kFramesMax);
  EXPECT_FALSE(mailbox_.send_frame(0, std::vector<std::byte>(60)));
  EXPECT_FALSE(mailbox_.send_frame(1, std::vector<std::byte>(60)));
  while (turn()) {
  }
  EXPECT_EQ(first_.sent, Mailbox::kFramesMax);
  EXPECT_EQ(worker_.counters().tx_lost, 2U);
}

using MailboxDeathTest = MailboxTest;

TEST_F(MailboxDeathTest, AMandatoryTaskOnAStuckWorkerEndsTheProcessWithASentence) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        given_a_stuck_worker();
        engine_.call(0, [](Worker&) {});
      },
      "worker 0 .* is stuck: it waits in the system call 0 \\(read\\).* so the daemon ends");
}

}  // namespace
}  // namespace uroce::test
