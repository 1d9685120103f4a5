#include "dataplane/engine/engine.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "base/time/liveness.h"
#include "base/time/monotonic_clock.h"
#include "dataplane/port/frame_pool.h"
#include "tests/unit/engine/worker_fixture.h"

namespace uroce::test {
namespace {

// Workers poll ports without a wait descriptor at intervals; this port needs no polling, so that
// only the test can wake the worker.
class SilentPort final : public Port {
 public:
  std::uint32_t rx_burst(std::uint16_t, Frame**, std::uint32_t, Time) override { return 0; }
  std::uint32_t tx_burst(std::uint16_t, Frame** frames, std::uint32_t count, Time) override {
    release(frames, count);
    sent.fetch_add(count);
    return count;
  }
  std::uint32_t allocate(Frame** frames, std::uint32_t count) override {
    return pool_.allocate(frames, count);
  }
  void release(Frame** frames, std::uint32_t count) override { pool_.release(frames, count); }
  [[nodiscard]] PortInfo info() const override { return {}; }
  [[nodiscard]] PortCounters counters() const override { return {}; }
  [[nodiscard]] bool needs_polling() const override { return false; }
  std::atomic<std::uint32_t> sent{0};

 private:
  uroce::FramePool pool_{256, 2'000};
};

class EngineTest : public testing::TestWithParam<IdlePolicy> {
 protected:
  void given(std::uint32_t workers) {
    statuses_ = std::vector<abi::WorkerStatus>(workers);
    Engine::Config config{.workers = workers, .idle = GetParam()};
    for (auto& status : statuses_) {
      config.status.push_back(&status);
    }
    engine_ = std::make_unique<Engine>(config, std::vector<Port*>{&port_}, keys_, quiescence_);
  }
  void wait_until_asleep(std::uint32_t worker) {
    while (GetParam() == IdlePolicy::kAdaptive && statuses_[worker].asleep.load() == 0) {
      std::this_thread::yield();
    }
  }

  SilentPort port_;
  Quiescence quiescence_;
  KeyTable keys_{quiescence_, 64, 1};
  std::vector<abi::WorkerStatus> statuses_;
  std::unique_ptr<Engine> engine_;
};

// A worker that only the test wakes, during the second for which it sleeps.
class SleepingWorkerTest : public testing::Test {
 protected:
  SleepingWorkerTest() {
    EXPECT_TRUE(engine_->start());
    while (engine_->heartbeat(0).thread() ==
           0) {  // before that its lock is free although it hasn't slept
      std::this_thread::yield();
    }
  }
  // Returns how often it had slept before. A task run on the caller's thread shows that it sleeps.
  std::uint64_t when_asleep() {
    for (;;) {
      std::uint64_t sleeps = 0;
      bool here = false;
      engine_->call(0, [&](Worker& worker) {
        here = std::this_thread::get_id() == self_;
        sleeps = worker.counters().sleeps;
      });
      if (here) {
        return sleeps;
      }
      std::this_thread::yield();
    }
  }

  const std::thread::id self_ = std::this_thread::get_id();
  SilentPort port_;
  Quiescence quiescence_;
  KeyTable keys_{quiescence_, 64, 1};
  std::unique_ptr<Engine> engine_ =
      std::make_unique<Engine>(Engine::Config{}, std::vector<Port*>{&port_}, keys_, quiescence_);
};

TEST_P(EngineTest, RunsTasksOnTheWorkersThreadAndWakesTheWorker) {
  given(2);
  ASSERT_TRUE(engine_->start());
  const auto self = std::this_thread::get_id();
  for (std::uint32_t i = 0; i < 200; ++i) {
    if (i % 10 == 0) {
      wait_until_asleep(i % 2);
    }
    bool ran = false;
    engine_->call_on_thread(i % 2, [&](Worker&) { ran = std::this_thread::get_id() != self; });
    EXPECT_TRUE(ran);
  }
}

TEST_P(EngineTest, RunsTasksInTheCallerBeforeStartAndAfterStop) {
  given(1);
  const auto self = std::this_thread::get_id();
  auto runs_here = [&] {
    bool here = false;
    engine_->call(0, [&](Worker&) { here = std::this_thread::get_id() == self; });
    return here;
  };
  EXPECT_TRUE(runs_here());
  ASSERT_TRUE(engine_->start());
  engine_->stop();
  EXPECT_TRUE(runs_here());
  ASSERT_TRUE(engine_->start());
  engine_->stop();
  EXPECT_TRUE(runs_here());
}

TEST_P(EngineTest, TellsProgramsWhetherAWorkerRuns) {
  given(1);
  const std::atomic<std::uint64_t>& beats = statuses_[0].beats;
  const bool sleeps = GetParam() == IdlePolicy::kAdaptive;
  ASSERT_TRUE(engine_->start());
  while (beats.load() == 0 || abi::sleeps(beats.load()) != sleeps) {
    std::this_thread::yield();
  }
  const std::uint64_t before = beats.load();
  engine_->wake(0);
  while (beats.load() == before) {
    std::this_thread::yield();
  }
  EXPECT_GT(beats.load(), before);
}

TEST_P(EngineTest, SeveralThreadsCallAtOnce) {
  given(1);
  ASSERT_TRUE(engine_->start());
  std::uint32_t count = 0;  // the worker's
  auto call = [&] {
    for (int i = 0; i < 500; ++i) {
      if (i % 50 == 0) {
        wait_until_asleep(0);
      }
      engine_->call(0, [&](Worker&) { ++count; });
    }
  };
  std::thread other(call);
  call();
  other.join();
  EXPECT_EQ(count, 1'000U);
}

TEST_F(SleepingWorkerTest, ATaskRunsInTheCallerAndDoesntWakeTheWorker) {
  // Its sleep may end by itself meanwhile.
  int here = 0;
  for (int tries = 0; tries < 100 && here < 100; ++tries) {
    const std::uint64_t sleeps = when_asleep();
    here = 0;
    for (int i = 0; i < 100; ++i) {
      engine_->call(0, [&](Worker& worker) {
        here += std::this_thread::get_id() == self_ && worker.counters().sleeps == sleeps ? 1 : 0;
      });
    }
  }
  EXPECT_EQ(here, 100);
}

TEST_F(SleepingWorkerTest, ATaskThatLeavesWorkWakesTheWorker) {
  const std::vector<std::byte> frame(60, std::byte{0xFF});
  when_asleep();
  engine_->call(0, [&](Worker& worker) { EXPECT_TRUE(worker.send_frame(0, frame)); });
  while (port_.sent.load() == 0) {
    std::this_thread::yield();
  }
}

TEST_F(SleepingWorkerTest, AWorkerWokenDuringABorrowedTaskWaitsForItsEnd) {
  const pid_t thread = engine_->heartbeat(0).thread();
  when_asleep();
  bool ended = false;
  std::thread other;
  engine_->call(0, [&](Worker&) {
    ASSERT_EQ(std::this_thread::get_id(), self_);
    other = std::thread(
        [&] { engine_->call(0, [&](Worker&) { EXPECT_TRUE(std::exchange(ended, false)); }); });
    const Time patience = monotonic_now() + 60 * kNanosecondsPerSecond;
    while (describe_activity(thread).find("(futex)") == std::string::npos &&
           monotonic_now() < patience) {
      std::this_thread::yield();
    }
    EXPECT_LT(monotonic_now(), patience) << "it does " << describe_activity(thread);
    ended = true;
  });
  other.join();
  EXPECT_FALSE(ended);
}

// The key table may free what a worker looked up before it went to sleep, but not what a running
// task has looked up.
TEST_F(SleepingWorkerTest, RegionsLookedUpByATaskAreHeld) {
  when_asleep();
  engine_->call(0, [&](Worker&) {
    const std::uint64_t token = quiescence_.begin();
    EXPECT_FALSE(quiescence_.over(token));
  });
  EXPECT_TRUE(quiescence_.wait());
}

TEST_P(EngineTest, SendsControlsFrames) {
  given(1);
  ASSERT_TRUE(engine_->start());
  wait_until_asleep(0);
  const std::vector<std::byte> frame(60, std::byte{0xFF});  // broadcast
  EXPECT_TRUE(engine_->send_frame(0, frame));
  while (port_.sent.load() == 0) {
    std::this_thread::yield();
  }
}

// The program's half of the protocol: ring, and write to the eventfd once per sleep. The bell must
// be taken every time, or this test hangs.
TEST_P(EngineTest, NoDoorbellIsLostToSleep) {
  given(1);
  const int descriptor = eventfd(0, EFD_CLOEXEC);
  auto bells = std::make_unique<abi::Doorbells>();
  SessionDoorbells session{.bells = bells.get(), .wake_descriptor = descriptor};
  engine_->call(0, [&](Worker& worker) { worker.add_session(session); });
  ASSERT_TRUE(engine_->start());
  std::uint32_t writes = 0;
  abi::WakeOnce waking;
  for (std::uint32_t i = 0; i < 2'000; ++i) {
    if (i % 8 == 0) {
      wait_until_asleep(0);
    }
    for (std::uint32_t slot = i; slot < i + 3; ++slot) {
      abi::ring(*bells, slot % 100);
      waking.wake(statuses_[0], [&] {
        const std::uint64_t one = 1;
        EXPECT_EQ(write(descriptor, &one, sizeof one), 8);
        ++writes;
      });
    }
    while (bells->top.load(std::memory_order_seq_cst) != 0) {
      std::this_thread::yield();
    }
  }
  EXPECT_EQ(writes > 0, GetParam() == IdlePolicy::kAdaptive);
  engine_->call(0, [&](Worker& worker) { worker.remove_session(session); });
  close(descriptor);
}

TEST_P(EngineTest, EachWorkerCountsItsTurns) {
  given(2);
  ASSERT_TRUE(engine_->start());
  for (std::uint32_t worker = 0; worker < 2; ++worker) {
    WorkerCounters counters;
    do {
      engine_->call_on_thread(worker, [&counters](Worker& its) { counters = its.counters(); });
    } while (counters.turns < 100);
    EXPECT_GE(counters.turns, counters.idle_turns);
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, EngineTest,
                         testing::Values(IdlePolicy::kPoll, IdlePolicy::kAdaptive));

}  // namespace
}  // namespace uroce::test
