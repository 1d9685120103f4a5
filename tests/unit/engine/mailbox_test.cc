#include "dataplane/engine/threads/mailbox.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "base/time/liveness.h"
#include "base/unique_fd.h"
#include "dataplane/engine/engine.h"

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
  EXPECT_TRUE(Mailbox::gives_up(Mailbox::kStuckMax, Mailbox::kStuckMax, waits));
  EXPECT_TRUE(Mailbox::gives_up(Mailbox::kStuckMax, Mailbox::kStuckMax, std::nullopt));
  EXPECT_FALSE(Mailbox::gives_up(Mailbox::kStuckMax, Mailbox::kStuckMax, in_kernel));
  EXPECT_TRUE(Mailbox::gives_up(Mailbox::kStuckInKernelMax, Mailbox::kStuckMax, in_kernel));
  EXPECT_TRUE(Mailbox::gives_up(Mailbox::kStuckMaxLooking, Mailbox::kStuckMaxLooking, in_kernel));
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
