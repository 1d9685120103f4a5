#include "dataplane/qp/queues/completion_queue.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "base/sockets/event_socket.h"
#include "tests/qp/rig.h"

namespace uroce::test {
namespace {

using Flushed = CompletionQueue::Flushed;

RingResize* fresh_cq_move(RingResize* move) {
  *move = {};
  return move;
}

constexpr std::uint64_t kCookie = 0xC00C1E;
constexpr std::uint32_t kEntries = 4;
constexpr Duration kPeriod = 1'000;

struct Channel {
  Channel() { EXPECT_EQ(fcntl(ends->read_end.get(), F_SETFL, O_NONBLOCK), 0); }
  Result<EventSocket> ends = make_event_socket("a channel");
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

  // Removes the events from the channel and returns how many there were.
  int events_in_channel() {
    int count = 0;
    for (abi::CompletionEvent event{};
         read(channel_.ends->read_end.get(), &event, sizeof(event)) == sizeof(event);) {
      EXPECT_EQ(event.cq_cookie, kCookie);
      ++count;
    }
    return count;
  }

  // Until the channel, which has room, takes the event: on a busy host, one whose event took long
  // may be throttled for some milliseconds (EventThrottle).
  CompletionQueue::Flushed flush(Time now = kNever) {
    auto flushed = queue_.flush(now);
    while (flushed == CompletionQueue::Flushed::kFull) {
      std::this_thread::yield();
      flushed = queue_.flush(now);
    }
    return flushed;
  }

  Channel channel_;
  EventLog events_;
  CompletionRing ring_{kEntries};
  CompletionQueue queue_{{.handle = 9,
                          .control = &ring_.control,
                          .entries = ring_.entries.data(),
                          .entry_count = kEntries,
                          .event_descriptor = channel_.ends->write_end.get(),
                          .event_cookie = kCookie}};
};

TEST_F(CompletionQueueTest, PublishesInOrder) {
  push(1);
  push(2);
  EXPECT_EQ(ring_.poll()->wr_id, 1U);
  EXPECT_EQ(ring_.poll()->wr_id, 2U);
  EXPECT_FALSE(ring_.poll());
}

TEST_F(CompletionQueueTest, RequestsOneFlush) {
  EXPECT_TRUE(push(1));
  EXPECT_FALSE(push(2));
  EXPECT_EQ(flush(), Flushed::kDone);
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
  push(100);  // stays broken although there is room again
  EXPECT_FALSE(ring_.poll());
}

// The consumer index is read only once the ring has been filled.
TEST_F(CompletionQueueTest, TreatsANonsenseConsumerIndexAsAnOverrun) {
  ring_.control.ring.consumer.value.store(12345);
  for (std::uint64_t i = 0; i < kEntries; ++i) {
    push(i);
  }
  EXPECT_FALSE(queue_.broken());
  push(kEntries);
  EXPECT_TRUE(queue_.broken());
}

// Several times round the ring, with entries consumed in between.
TEST_F(CompletionQueueTest, SeesRoomThatTheProgramFrees) {
  for (std::uint64_t i = 0; i < 5 * kEntries; ++i) {
    push(i);
    if (i % kEntries == kEntries - 1) {
      EXPECT_EQ(ring_.poll_all().size(), kEntries);
    }
  }
  EXPECT_FALSE(queue_.broken());
}

TEST_F(CompletionQueueTest, SendsOneEventPerArming) {
  arm(abi::Arm::kNext);
  push(1);
  EXPECT_EQ(flush(), Flushed::kDone);
  EXPECT_EQ(armed(), abi::Arm::kNone);
  push(2);
  EXPECT_EQ(flush(), Flushed::kDone);
  EXPECT_EQ(events_in_channel(), 1);
}

TEST_F(CompletionQueueTest, SendsNoEventUnlessArmed) {
  push(1);
  EXPECT_EQ(flush(), Flushed::kDone);
  EXPECT_EQ(events_in_channel(), 0);
}

TEST_F(CompletionQueueTest, ArmedForSolicitedWaitsForASolicitedCompletion) {
  arm(abi::Arm::kSolicited);
  push(1);
  EXPECT_EQ(flush(), Flushed::kDone);
  EXPECT_EQ(events_in_channel(), 0);
  push(2, true);
  push(3);
  EXPECT_EQ(flush(), Flushed::kDone);
  EXPECT_EQ(events_in_channel(), 1);
}

TEST_F(CompletionQueueTest, KeepsAnEventThatFindsTheChannelFull) {
  std::array<std::byte, 4096> filler{};
  while (put_event(channel_.ends->write_end.get(), filler) == PutEvent::kPut) {
  }
  arm(abi::Arm::kNext);
  push(1);
  EXPECT_EQ(queue_.flush(), Flushed::kFull);
  EXPECT_FALSE(push(2)) << "its flush is pending already";
  while (read(channel_.ends->read_end.get(), filler.data(), filler.size()) > 0) {
  }
  EXPECT_EQ(flush(), Flushed::kDone);
  EXPECT_EQ(events_in_channel(), 1);
}

// The program may arm again as soon as it has read the event, before flush() returns: modelled by
// arming while an event is pending.
TEST_F(CompletionQueueTest, NeverClearsAnArmThatCameAfterTheEvent) {
  std::array<std::byte, 4096> filler{};
  while (put_event(channel_.ends->write_end.get(), filler) == PutEvent::kPut) {
  }
  arm(abi::Arm::kNext);
  push(1);
  EXPECT_EQ(queue_.flush(), Flushed::kFull);
  arm(abi::Arm::kNext);
  while (read(channel_.ends->read_end.get(), filler.data(), filler.size()) > 0) {
  }
  EXPECT_EQ(flush(), Flushed::kDone);
  EXPECT_EQ(armed(), abi::Arm::kNext);
}

TEST_F(CompletionQueueTest, WithoutAChannelNeedsNoArm) {
  CompletionQueue silent({.handle = 9,
                          .control = &ring_.control,
                          .entries = ring_.entries.data(),
                          .entry_count = kEntries});
  arm(abi::Arm::kNext);
  silent.push(abi::Cqe{}, true, events_);
  EXPECT_EQ(silent.flush(), Flushed::kDone);
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
  EXPECT_EQ(queue_.flush(kPeriod - 1), Flushed::kWaits);
  EXPECT_EQ(events_in_channel(), 0);
  push(3);
  EXPECT_EQ(flush(kPeriod - 1), Flushed::kDone);
  EXPECT_EQ(events_in_channel(), 1);
}

TEST_F(CompletionQueueTest, ModeratedEventsWaitNoLongerThanThePeriod) {
  queue_.moderate(3, kPeriod);
  arm(abi::Arm::kNext);
  push(1);
  EXPECT_EQ(queue_.flush(kPeriod - 1), Flushed::kWaits);
  EXPECT_EQ(flush(kPeriod), Flushed::kDone);
  EXPECT_EQ(events_in_channel(), 1);
}

TEST_F(CompletionQueueTest, ModerationNeedsNoTimerUnlessArmed) {
  queue_.moderate(3, kPeriod);
  push(1);
  EXPECT_EQ(flush(1), Flushed::kDone);
}

// Of a new ring, one lap later, and where the index starts anew.
TEST(CompletionEntry, IsWrittenForItsIndexOnly) {
  abi::Cqe entry{};
  for (const std::uint32_t index : {0U, 1U, 0x7FFF'FFFFU, 0x8000'0000U, 0xFFFF'FFFFU}) {
    EXPECT_FALSE(abi::is_written(abi::Cqe{}, index)) << index;
    abi::Cqe cqe{};
    cqe.wr_id = index;
    abi::write_completion(cqe, index, &entry);
    EXPECT_TRUE(abi::is_written(entry, index)) << index;
    EXPECT_EQ(entry.wr_id, index);
    for (const std::uint32_t entries : {1U, kEntries, 1U << 22U}) {
      EXPECT_FALSE(abi::is_written(entry, index + entries)) << index << " and " << entries;
      EXPECT_FALSE(abi::is_written(entry, index - entries)) << index << " and " << entries;
    }
  }
}

TEST_F(CompletionQueueTest, MovesUnpolledEntriesIntoALargerRing) {
  RingResize move;
  for (std::uint64_t i = 0; i < kEntries; ++i) {
    push(i);
  }
  EXPECT_EQ(ring_.poll()->wr_id, 0U);
  push(kEntries);
  std::vector<abi::Cqe> larger(2 * kEntries);
  ASSERT_TRUE(queue_.resize(larger.data(), 2 * kEntries, fresh_cq_move(&move)));
  for (std::uint64_t i = 0; i < kEntries; ++i) {
    push(kEntries + 1 + i);
  }
  EXPECT_FALSE(queue_.broken());
  ring_.entries = larger;
  for (std::uint64_t i = 1; i <= 2 * kEntries; ++i) {
    EXPECT_EQ(ring_.poll()->wr_id, i);
  }
  EXPECT_FALSE(ring_.poll().has_value());  // the next entry was never written
}

TEST_F(CompletionQueueTest, RefusesARingTooSmallForItsEntries) {
  RingResize move;
  push(1);
  push(2);
  std::vector<abi::Cqe> smaller(1);
  const Result<bool> status = queue_.resize(smaller.data(), 1, fresh_cq_move(&move));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, EINVAL);
  EXPECT_EQ(ring_.poll()->wr_id, 1U);
  ASSERT_TRUE(queue_.resize(smaller.data(), 1, fresh_cq_move(&move)));
  EXPECT_EQ(smaller[0].wr_id, 2U);
}

TEST_F(CompletionQueueTest, RefusesToCopyByANonsenseConsumerIndex) {
  RingResize move;
  ring_.control.ring.consumer.value.store(12345);
  std::vector<abi::Cqe> larger(2 * kEntries);
  EXPECT_FALSE(queue_.resize(larger.data(), 2 * kEntries, fresh_cq_move(&move)));
}

// The index is written by the program: it can claim that all of a ring of 16 MiB is unread.
TEST(CompletionQueueResize, MovesInStepsAndTakesEntriesThatArriveMeanwhile) {
  constexpr std::uint32_t kMany = 1U << 18U;
  const auto control = std::make_unique<abi::CqControl>();
  std::vector<abi::Cqe> ring(kMany), larger(2 * std::size_t{kMany});
  CompletionQueue queue(
      {.handle = 1, .control = control.get(), .entries = ring.data(), .entry_count = kMany});
  EventLog events;
  abi::Cqe pushed{};
  pushed.wr_id = 1;
  queue.push(pushed, false, events);
  control->ring.consumer.value.store(1 - kMany);
  RingResize move;
  std::uint32_t steps = 1;
  std::uint32_t copied = 1 - kMany;
  for (Result<bool> over = queue.resize(larger.data(), 2 * kMany, &move); !over.value();
       over = queue.resize(larger.data(), 2 * kMany, &move)) {
    EXPECT_LE((move.next - copied) * sizeof(abi::Cqe), RingResize::kStepBytes);
    copied = move.next;
    control->ring.consumer.value.fetch_add(1);
    pushed.wr_id = ++steps;
    queue.push(pushed, false, events);
  }
  EXPECT_EQ(steps, kMany * sizeof(abi::Cqe) / RingResize::kStepBytes + 1);
  EXPECT_EQ(larger[0].wr_id, 1U);
  EXPECT_EQ(larger[steps - 1].wr_id, steps);
}

}  // namespace
}  // namespace uroce::test
