// Completion queues whose events are late: the channel is full, or moderation delays them.

#include "dataplane/engine/turn/late_events.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <deque>
#include <optional>
#include <vector>

#include "abi/completion.h"
#include "base/sockets/event_socket.h"
#include "tests/unit/engine/worker_fixture.h"

namespace uroce::test {
namespace {

constexpr std::uint32_t kEntries = 16;
constexpr std::size_t kManyQueues = 200;
constexpr int kManyChannels = 3 * static_cast<int>(LateEvents::kFullMax);

struct Channel {
  // Fills the channel until nothing more goes in.
  void fill() const {
    std::array<std::byte, 4096> filler{};
    while (put_event(ends->write_end.get(), filler) == PutEvent::kPut) {
    }
  }
  // Empties the channel; returns the cookies of the events that were in it.
  [[nodiscard]] std::vector<std::uint64_t> read_all() const {
    std::vector<std::uint64_t> cookies;
    std::array<std::byte, 4096> record{};
    for (ssize_t got = 0;
         (got = recv(ends->read_end.get(), record.data(), record.size(), MSG_DONTWAIT)) > 0;) {
      if (got == sizeof(abi::CompletionEvent)) {
        abi::CompletionEvent event{};
        std::memcpy(&event, record.data(), sizeof(event));
        cookies.push_back(event.cq_cookie);
      }
    }
    return cookies;
  }

  Result<EventSocket> ends = make_event_socket("a channel");
};

// A queue whose program waits for an event.
struct Waiting {
  Waiting(const Channel& channel, std::uint64_t cookie)
      : queue({.handle = 1,
               .control = &ring.control,
               .entries = ring.entries.data(),
               .entry_count = kEntries,
               .event_descriptor = channel.ends->write_end.get(),
               .event_cookie = cookie}) {
    ring.control.arm.store(static_cast<std::uint32_t>(abi::Arm::kNext));
    queue.push(abi::Cqe{}, false, events);
  }

  EventLog events;
  CompletionRing ring{kEntries};
  CompletionQueue queue;
};

TEST(LateEvents, AFullChannelIsTriedOnceForAllItsQueues) {
  const Channel channel;
  channel.fill();
  Waiting first(channel, 1), second(channel, 2);
  LateEvents late;
  EXPECT_EQ(late.next(), kNever);
  late.flush(first.queue, 0);
  EXPECT_TRUE(channel.read_all().empty());
  late.flush(second.queue, 0);
  EXPECT_TRUE(channel.read_all().empty())
      << "the full channel isn't tried again for the second queue";
  late.flush_listed(LateEvents::kInterval - 1);
  EXPECT_TRUE(channel.read_all().empty());
  ASSERT_EQ(late.next(), LateEvents::kInterval);
  late.flush_listed(late.next());
  EXPECT_EQ(channel.read_all(), (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(late.next(), kNever);
}

TEST(LateEvents, EventsPerLookAreBounded) {
  const Channel channel;
  channel.fill();
  std::deque<Waiting> queues;
  LateEvents late;
  for (std::size_t i = 0; i < kManyQueues; ++i) {
    late.flush(queues.emplace_back(channel, i).queue, 0);
  }
  (void)channel.read_all();
  std::size_t told = 0;
  while (late.next() != kNever) {
    late.flush_listed(late.next());
    const std::size_t events = channel.read_all().size();
    ASSERT_GT(events, 0U);
    ASSERT_LE(events, LateEvents::kEventsMax);
    told += events;
  }
  EXPECT_EQ(told, kManyQueues);
}

TEST(LateEvents, ChannelsTakeTurns) {
  std::deque<Channel> channels(kManyChannels);
  std::deque<Waiting> queues;
  LateEvents late;
  for (const Channel& channel : channels) {
    channel.fill();
    late.flush(queues.emplace_back(channel, 7).queue, 0);
  }
  for (const Channel& reads : channels) {
    (void)reads.read_all();
    bool told = false;
    for (int looks = 0; looks < kManyChannels / static_cast<int>(LateEvents::kFullMax) + 1 && !told;
         ++looks) {
      late.flush_listed(late.next());
      told = !reads.read_all().empty();
    }
    EXPECT_TRUE(told);
  }
  EXPECT_EQ(late.next(), kNever);
}

// A program that doesn't read its events isn't waiting for them either.
TEST(LateEvents, ChannelsThatNobodyReadsAreTriedLessOften) {
  const Channel channel;
  channel.fill();
  Waiting queue(channel, 1);
  LateEvents late;
  late.flush(queue.queue, 0);
  Time now = late.next();
  for (int looks = 0; looks < 16; ++looks) {
    late.flush_listed(now);
    ASSERT_LE(late.next(), now + LateEvents::kFullIntervalMax);
    now = late.next();
  }
  late.flush_listed(now);
  EXPECT_EQ(late.next(), now + LateEvents::kFullIntervalMax);
}

TEST(LateEvents, ForgetARemovedQueue) {
  const Channel channel;
  channel.fill();
  LateEvents late;
  Waiting stays(channel, 1);
  {
    Waiting gone(channel, 2);
    late.flush(gone.queue, 0);
    late.flush(stays.queue, 0);
    late.forget(gone.queue);
  }
  (void)channel.read_all();
  late.flush_listed(late.next());
  EXPECT_EQ(channel.read_all(), std::vector<std::uint64_t>{1});
  EXPECT_EQ(late.next(), kNever);
}

TEST(LateEvents, AModeratedEventIsSentWhenItIsDue) {
  constexpr Duration kPeriod = 3 * LateEvents::kInterval;
  const Channel channel;
  Waiting queue(channel, 5);
  queue.queue.moderate(8, kPeriod);
  LateEvents late;
  late.flush(queue.queue, 0);
  Time told = 0;
  while (late.next() != kNever) {
    told = late.next();
    EXPECT_TRUE(channel.read_all().empty());
    late.flush_listed(told);
  }
  EXPECT_EQ(told, kPeriod);
  EXPECT_EQ(channel.read_all(), std::vector<std::uint64_t>{5});
}

}  // namespace
}  // namespace uroce::test
