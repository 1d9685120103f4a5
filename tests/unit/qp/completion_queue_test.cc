#include "dataplane/qp/completion_queue.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "tests/qp/rig.h"

namespace uroce::test {
namespace {

constexpr std::uint64_t kCookie = 0xC00C1E;
constexpr std::uint32_t kEntries = 4;
constexpr Duration kPeriod = 1'000;

struct Pipe {
  Pipe() { EXPECT_EQ(pipe2(ends.data(), O_NONBLOCK | O_CLOEXEC), 0); }
  ~Pipe() {
    close(ends[0]);
    close(ends[1]);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  std::array<int, 2> ends{-1, -1};
};

class CompletionQueueTest : public testing::Test {
 protected:
  bool push(std::uint64_t wr_id, bool solicited = false) {
    abi::Cqe cqe{};
    cqe.wr_id = wr_id;
    return queue_.push(cqe, solicited, events_);
  }
  void arm(abi::Arm arm) { ring_.control.arm.store(static_cast<std::uint32_t>(arm)); }
  abi::Arm armed() { return static_cast<abi::Arm>(ring_.control.arm.load()); }

  // How many events wait in the channel; takes them.
  int events_in_pipe() {
    int count = 0;
    for (abi::CompletionEvent event{};
         read(pipe_.ends[0], &event, sizeof(event)) == sizeof(event);) {
      EXPECT_EQ(event.cq_cookie, kCookie);
      ++count;
    }
    return count;
  }

  Pipe pipe_;
  EventLog events_;
  CompletionRing ring_{kEntries};
  CompletionQueue queue_{9,       &ring_.control, ring_.entries.data(), kEntries, pipe_.ends[1],
                         kCookie, false};
};

TEST_F(CompletionQueueTest, PublishesInOrder) {
  push(1);
  push(2);
  EXPECT_EQ(ring_.poll()->wr_id, 1U);
  EXPECT_EQ(ring_.poll()->wr_id, 2U);
  EXPECT_FALSE(ring_.poll());
}

TEST_F(CompletionQueueTest, AsksOnceToBeFlushed) {
  EXPECT_TRUE(push(1));
  EXPECT_FALSE(push(2));
  EXPECT_TRUE(queue_.flush());
  EXPECT_TRUE(push(3));
}

TEST_F(CompletionQueueTest, BreaksOnceWhenThereIsNoRoom) {
  for (std::uint64_t i = 0; i < kEntries; ++i) {
    push(i);
  }
  EXPECT_FALSE(queue_.broken());
  push(99);
  push(99);
  EXPECT_TRUE(queue_.broken());
  EXPECT_EQ(ring_.control.overrun.load(), 1U);
  EXPECT_EQ(events_.entries, (std::vector<EventLog::Entry>{{AsyncEvent::kCqErr, 9}}));
  EXPECT_EQ(ring_.poll_all().size(), kEntries);
  push(100);  // for good, though there is room again
  EXPECT_FALSE(ring_.poll());
}

TEST_F(CompletionQueueTest, TakesANonsenseConsumerIndexForAnOverrun) {
  ring_.control.ring.consumer.value.store(12345);
  push(1);
  EXPECT_TRUE(queue_.broken());
}

TEST_F(CompletionQueueTest, TellsAnArmedChannelOnce) {
  arm(abi::Arm::kNext);
  push(1);
  EXPECT_TRUE(queue_.flush());
  EXPECT_EQ(armed(), abi::Arm::kNone);
  push(2);
  EXPECT_TRUE(queue_.flush());
  EXPECT_EQ(events_in_pipe(), 1);
}

TEST_F(CompletionQueueTest, SaysNothingToAChannelThatDidNotAsk) {
  push(1);
  EXPECT_TRUE(queue_.flush());
  EXPECT_EQ(events_in_pipe(), 0);
}

TEST_F(CompletionQueueTest, WaitsForASolicitedOne) {
  arm(abi::Arm::kSolicited);
  push(1);
  EXPECT_TRUE(queue_.flush());
  EXPECT_EQ(events_in_pipe(), 0);
  push(2, true);
  push(3);
  EXPECT_TRUE(queue_.flush());
  EXPECT_EQ(events_in_pipe(), 1);
}

TEST_F(CompletionQueueTest, KeepsAnEventThatFindsThePipeFull) {
  std::array<std::byte, 4096> filler{};
  while (write(pipe_.ends[1], filler.data(), filler.size()) > 0) {
  }
  arm(abi::Arm::kNext);
  push(1);
  EXPECT_FALSE(queue_.flush());
  EXPECT_FALSE(push(2)) << "it still waits to be flushed";
  while (read(pipe_.ends[0], filler.data(), filler.size()) > 0) {
  }
  EXPECT_TRUE(queue_.flush());
  EXPECT_EQ(events_in_pipe(), 1);
}

// Here the pipe blocks, so that the writer stays where it is: another worker's push gets through.
TEST_F(CompletionQueueTest, TheChannelIsWrittenWithoutTheLock) {
  CompletionRing ring{kEntries};
  CompletionQueue shared{9,       &ring.control, ring.entries.data(), kEntries, pipe_.ends[1],
                         kCookie, true};
  std::array<std::byte, 4096> filler{};
  while (write(pipe_.ends[1], filler.data(), filler.size()) > 0) {
  }
  ASSERT_EQ(fcntl(pipe_.ends[1], F_SETFL, 0), 0);
  ring.control.arm.store(static_cast<std::uint32_t>(abi::Arm::kNext));
  EXPECT_TRUE(shared.push({}, false, events_));
  std::thread writer([&shared] { EXPECT_TRUE(shared.flush()); });
  while (ring.control.arm.load() != static_cast<std::uint32_t>(abi::Arm::kNone)) {
    std::this_thread::yield();
  }
  shared.push({}, false, events_);
  EXPECT_EQ(ring.poll_all().size(), 2U);
  while (read(pipe_.ends[0], filler.data(), filler.size()) == filler.size()) {
  }
  writer.join();
}

// The program arms again as soon as it has read the event, before flush() returns: modelled by
// arming while an event is owed.
TEST_F(CompletionQueueTest, NeverClearsAnArmThatCameAfterTheEvent) {
  std::array<std::byte, 4096> filler{};
  while (write(pipe_.ends[1], filler.data(), filler.size()) > 0) {
  }
  arm(abi::Arm::kNext);
  push(1);
  EXPECT_FALSE(queue_.flush());
  arm(abi::Arm::kNext);
  while (read(pipe_.ends[0], filler.data(), filler.size()) > 0) {
  }
  EXPECT_TRUE(queue_.flush());
  EXPECT_EQ(armed(), abi::Arm::kNext);
}

TEST_F(CompletionQueueTest, WithoutAChannelNeedsNoArm) {
  CompletionQueue silent(9, &ring_.control, ring_.entries.data(), kEntries, -1, 0, false);
  arm(abi::Arm::kNext);
  silent.push(abi::Cqe{}, true, events_);
  EXPECT_TRUE(silent.flush());
}

TEST_F(CompletionQueueTest, MayIgnoreAnOverrun) {
  queue_.ignore_overrun();
  for (std::uint64_t i = 0; i < kEntries + 1; ++i) {
    push(i);
  }
  EXPECT_FALSE(queue_.broken());
  EXPECT_EQ(ring_.poll_all().size(), kEntries);
  push(5);
  EXPECT_EQ(ring_.poll()->wr_id, 5U);
}

TEST_F(CompletionQueueTest, ModeratedEventsWaitForTheCount) {
  queue_.moderate(3, kPeriod);
  arm(abi::Arm::kNext);
  push(1);
  push(2);
  EXPECT_FALSE(queue_.flush(kPeriod - 1)) << "is to be flushed again";
  EXPECT_EQ(events_in_pipe(), 0);
  push(3);
  EXPECT_TRUE(queue_.flush(kPeriod - 1));
  EXPECT_EQ(events_in_pipe(), 1);
}

TEST_F(CompletionQueueTest, ModeratedEventsWaitNoLongerThanThePeriod) {
  queue_.moderate(3, kPeriod);
  arm(abi::Arm::kNext);
  push(1);
  EXPECT_FALSE(queue_.flush(kPeriod - 1));
  EXPECT_TRUE(queue_.flush(kPeriod));
  EXPECT_EQ(events_in_pipe(), 1);
}

TEST_F(CompletionQueueTest, ModerationKeepsNobodyBusyWhoDidNotArm) {
  queue_.moderate(3, kPeriod);
  push(1);
  EXPECT_TRUE(queue_.flush(1));
}

TEST_F(CompletionQueueTest, TakesWhatWasNotPolledAlongIntoALargerRing) {
  for (std::uint64_t i = 0; i < kEntries; ++i) {
    push(i);
  }
  EXPECT_EQ(ring_.poll()->wr_id, 0U);
  push(kEntries);
  std::vector<abi::Cqe> larger(2 * kEntries);
  ASSERT_TRUE(queue_.resize(larger.data(), 2 * kEntries));
  for (std::uint64_t i = 0; i < kEntries; ++i) {
    push(kEntries + 1 + i);
  }
  EXPECT_FALSE(queue_.broken());
  ring_.entries = larger;
  for (std::uint64_t i = 1; i <= 2 * kEntries; ++i) {
    EXPECT_EQ(ring_.poll()->wr_id, i);
  }
}

TEST_F(CompletionQueueTest, RefusesARingThatIsTooSmallForWhatItHolds) {
  push(1);
  push(2);
  std::vector<abi::Cqe> smaller(1);
  const Status status = queue_.resize(smaller.data(), 1);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, EINVAL);
  EXPECT_EQ(ring_.poll()->wr_id, 1U);
  ASSERT_TRUE(queue_.resize(smaller.data(), 1));
  EXPECT_EQ(smaller[0].wr_id, 2U);
}

TEST_F(CompletionQueueTest, RefusesToCopyByANonsenseConsumerIndex) {
  ring_.control.ring.consumer.value.store(12345);
  std::vector<abi::Cqe> larger(2 * kEntries);
  EXPECT_FALSE(queue_.resize(larger.data(), 2 * kEntries));
}

}  // namespace
}  // namespace uroce::test
