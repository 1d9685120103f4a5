// Threads of programs that sleep waiting for completions, and when a worker wakes them.

#include "dataplane/engine/turn/naps.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <thread>
#include <vector>

#include "base/futex.h"
#include "base/time/liveness.h"
#include "tests/unit/engine/worker_fixture.h"

namespace uroce::test {
namespace {

constexpr std::uint32_t kEntries = 16;

// A completion queue, and a program whose thread may nap beside it.
struct Napper {
  explicit Napper(std::uint32_t handle)
      : queue({.handle = handle,
               .control = &ring.control,
               .entries = ring.entries.data(),
               .entry_count = kEntries}) {}
  void nap_until(std::uint32_t producer) {
    nap().until.store(producer);
    nap().asleep.store(1);
  }
  void complete(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      queue.push(abi::Cqe{}, false, events);
    }
  }
  abi::Nap& nap() { return ring.control.ring.producer.nap; }
  [[nodiscard]] bool naps() { return nap().asleep.load() != 0; }

  EventLog events;
  CompletionRing ring{kEntries};
  CompletionQueue queue;
};

TEST(Naps, EndWithTheCompletionsThatTheyWaitFor) {
  Napper napper(1);
  Naps naps;
  napper.nap_until(3);
  napper.complete(2);
  naps.on_completions(napper.queue);
  EXPECT_TRUE(napper.naps());
  napper.complete(1);
  naps.on_completions(napper.queue);
  EXPECT_FALSE(napper.naps());
  // A new nap is unknown to the worker until the queue gets a completion.
  napper.nap_until(8);
  naps.turn_ends(false);
  EXPECT_TRUE(napper.naps());
}

TEST(Naps, EndWhenTheWorkerHasNothingElseToDo) {
  Napper napper(1), without(2), gone(3);
  Naps naps;
  for (Napper* each : {&napper, &gone}) {
    each->nap_until(8);
    each->complete(1);
    naps.on_completions(each->queue);
  }
  naps.on_completions(without.queue);
  naps.forget(gone.queue);
  naps.turn_ends(true);
  EXPECT_TRUE(napper.naps());
  naps.turn_ends(false);
  EXPECT_FALSE(napper.naps());
  EXPECT_TRUE(gone.naps());
}

TEST(Naps, EndAfterAWhileIfTheWorkerStaysBusy) {
  Napper napper(1);
  Naps naps;
  for (int round = 0; round < 2; ++round) {
    napper.nap_until(20);
    napper.complete(1);
    naps.on_completions(napper.queue);
    for (std::uint32_t turn = 0; turn < Naps::kBusyTurnsMax; ++turn) {
      EXPECT_TRUE(napper.naps());
      naps.turn_ends(true);
    }
    EXPECT_FALSE(napper.naps());
    // A nap that ended early leaves the next one its full time.
    napper.nap_until(20);
    napper.complete(1);
    naps.on_completions(napper.queue);
    naps.turn_ends(true);
    napper.nap_until(0);
    naps.on_completions(napper.queue);
    EXPECT_FALSE(napper.naps());
  }
}

TEST(Naps, OfVeryManyQueuesEndAtOnce) {
  Naps naps;
  std::vector<std::unique_ptr<Napper>> nappers;
  for (std::uint32_t i = 0; i <= Naps::kListedMax; ++i) {
    nappers.push_back(std::make_unique<Napper>(i + 1));
    nappers.back()->nap_until(8);
    nappers.back()->complete(1);
    naps.on_completions(nappers.back()->queue);
    naps.on_completions(nappers.back()->queue);  // isn't listed twice
    EXPECT_EQ(nappers.back()->naps(), i < Naps::kListedMax);
  }
}

// Without the wake-up the thread sleeps for ten seconds.
TEST(Naps, WakeTheThread) {
  constexpr Duration kLong = 10 * kNanosecondsPerSecond;
  Napper napper(1);
  Naps naps;
  std::atomic<pid_t> thread{0};
  const Time begun = monotonic_now();
  napper.nap_until(1);
  std::thread program([&] {
    thread = gettid();
    futex_wait(napper.nap().asleep, 1, FutexScope::kShared, kLong);
  });
  const auto sleeps = [&] {
    const auto state = thread_state(thread);
    return state.has_value() && state->state == 'S';
  };
  while ((thread == 0 || !sleeps()) && monotonic_now() - begun < kLong) {
    std::this_thread::yield();
  }
  napper.complete(1);
  naps.on_completions(napper.queue);
  program.join();
  EXPECT_LT(monotonic_now() - begun, kLong);
}

TEST(Naps, AreEndedByAWorkersIdleTurn) {
  Stations stations;
  abi::Nap& nap = stations.pair.a.send_completions.control.ring.producer.nap;
  nap.until.store(8);
  nap.asleep.store(1);
  stations.post_write(1, 8);
  stations.settle();
  EXPECT_EQ(nap.asleep.load(), 0U);
  EXPECT_TRUE(stations.pair.a.poll_send().has_value());
}

}  // namespace
}  // namespace uroce::test
