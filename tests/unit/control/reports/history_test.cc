// The ring of samples, and the sampler.

#include "control/reports/history.h"

#include <poll.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "control/reports/recent_latencies.h"
#include "control/reports/sampler.h"
#include "tests/unit/control/program.h"

namespace uroce::control {
namespace {

bool is_readable(int descriptor) {
  pollfd waiting{.fd = descriptor, .events = POLLIN, .revents = 0};
  return ::poll(&waiting, 1, 0) == 1;
}

TEST(HistoryTest, ForgetsTheOldest) {
  History history;
  for (std::uint64_t i = 0; i < History::kSamplesMax + 3; ++i) {
    history.add({.unix_time_ms = i, .daemon = {i}, .devices = {{i}}, .latencies = {}});
  }
  EXPECT_EQ(history.samples().size(), History::kSamplesMax);
  EXPECT_EQ(history.samples().front().unix_time_ms, 3U);
}

// A queue pair that is destroyed while a sample is taken may be in none of its parts.
TEST(HistoryTest, CountersNeverGoBack) {
  History history;
  history.add({.unix_time_ms = 1, .daemon = {7}, .devices = {{10, 20}}, .latencies = {}});
  history.add({.unix_time_ms = 2, .daemon = {3}, .devices = {{9, 21}}, .latencies = {}});
  EXPECT_EQ(history.samples().back().devices[0], (std::vector<std::uint64_t>{10, 21}));
  EXPECT_EQ(history.samples().back().daemon[0], 3U) << "the number of objects is no counter";
}

// Latencies go up and down.
TEST(HistoryTest, LatenciesMayGoBack) {
  History history;
  history.add({.monotonic_ms = 1, .daemon = {}, .devices = {}, .latencies = {{10, 20}}});
  history.add({.monotonic_ms = 2, .daemon = {}, .devices = {}, .latencies = {{0, 0}}});
  EXPECT_EQ(history.samples().back().latencies[0], (std::vector<std::uint64_t>{0, 0}));
}

constexpr std::size_t kWriteP99 =
    static_cast<std::size_t>(LatencyKind::kWrite) * std::size(kLatencyColumns) + 1;

void add_times(Latencies* latencies, int count, Duration took) {
  for (int i = 0; i < count; ++i) {
    latencies->add(LatencyKind::kWrite, took);
  }
}

TEST(RecentLatenciesTest, CoverTheTimeSinceTheLastSample) {
  RecentLatencies recent;
  Latencies sum;
  const auto next = [&] {
    const std::vector<std::uint64_t> values = recent.since_remembered(sum);
    EXPECT_EQ(values.size(), kLatencyCount * std::size(kLatencyColumns));
    recent.remember(sum);
    return values[kWriteP99];
  };
  EXPECT_EQ(next(), 0U) << "nothing was timed at all";
  add_times(&sum, 100, 1'000'000);
  EXPECT_NEAR(static_cast<double>(next()), 1e6, 1.3e5);
  EXPECT_EQ(next(), 0U) << "nothing in that second";
  add_times(&sum, 3, 2'000);
  EXPECT_NEAR(static_cast<double>(next()), 2e3, 260);
  add_times(&sum, 1, 0);
  EXPECT_EQ(next(), 128U) << "the middle of the shortest bucket";
}

// A queue pair that is destroyed between reading the worker and reading the queue pairs is in
// neither, and in the worker's sum a second later.
TEST(RecentLatenciesTest, ADestroyedQueuePairIsNotCountedAgain) {
  Latencies goes, stays, without, with;
  add_times(&goes, 1'000, 1'000'000);
  add_times(&stays, 10, 2'000);
  with += goes;
  with += stays;
  RecentLatencies recent;
  recent.remember(with);
  without += stays;
  EXPECT_EQ(recent.since_remembered(without)[kWriteP99], 0U) << "nothing below 0";
  recent.remember(without);
  EXPECT_EQ(recent.since_remembered(with)[kWriteP99], 0U);
  add_times(&with, 5, 4'000);
  EXPECT_NEAR(static_cast<double>(recent.since_remembered(with)[kWriteP99]), 4e3, 520);
}

class SamplerTest : public ::testing::Test {
 protected:
  // Wakes a worker until it has beaten often since the last look.
  void stir() {
    const Heartbeat& worker = rig.card.engine().heartbeat(0);
    const std::uint64_t until = worker.beats() + 4 * Sampler::kIdleBeatsMax;
    while (worker.beats() < until) {
      rig.card.engine().wake(0);
      std::this_thread::yield();
    }
  }
  // Advances virtual time by a second.
  void second() {
    rig.now += kNanosecondsPerSecond;
    sampler.on_time(rig.now);
  }

  Rig rig;
  Sampler sampler{rig.card};
};

TEST_F(SamplerTest, TakesOneASecondWhileThereIsActivity) {
  ASSERT_TRUE(rig.card.engine().start());
  EXPECT_EQ(sampler.next_deadline(), kNever);
  sampler.check();
  EXPECT_FALSE(is_readable(sampler.descriptor())) << "the first check only remembers";
  stir();
  sampler.check();
  ASSERT_TRUE(is_readable(sampler.descriptor()));
  sampler.on_event();
  EXPECT_FALSE(is_readable(sampler.descriptor()));
  EXPECT_EQ(sampler.next_deadline(), rig.now);
  sampler.on_time(rig.now);
  EXPECT_EQ(sampler.history().samples().size(), 1U);
  EXPECT_EQ(sampler.next_deadline(), rig.now + Sampler::kInterval);
  Program program(rig);  // another session: something has changed
  second();
  EXPECT_EQ(sampler.history().samples().size(), 2U);
  EXPECT_NE(sampler.next_deadline(), kNever);
  second();
  EXPECT_EQ(sampler.history().samples().size(), 3U);
  EXPECT_EQ(sampler.next_deadline(), kNever) << "there was no activity in that second";
  sampler.check();  // activity caused by the sample itself doesn't count
  EXPECT_FALSE(is_readable(sampler.descriptor()));
  stir();
  sampler.check();
  EXPECT_TRUE(is_readable(sampler.descriptor()));
  sampler.on_event();
  second();
  EXPECT_EQ(sampler.history().samples().size(), 3U)
      << "a worker that only polls doesn't displace samples";
  rig.card.engine().stop();
}

// As in the daemon: the watchdog's thread looks, and control takes the samples.
TEST_F(SamplerTest, LooksInAnotherThread) {
  ASSERT_TRUE(rig.card.engine().start());
  std::atomic<bool> over{false};
  std::thread watchdog([&] {
    while (!over) {
      stir();
      sampler.check();
    }
  });
  for (int rung = 0; rung < 5;) {
    if (is_readable(sampler.descriptor())) {
      ++rung;
      sampler.on_event();
    }
    second();
  }
  over = true;
  watchdog.join();
  EXPECT_EQ(sampler.history().samples().size(), 2U)
      << "the first, and that nothing has moved since";
  rig.card.engine().stop();
}

// Many queue pairs are read in several pieces.
TEST_F(SamplerTest, ReadsQueuePairsInPieces) {
  Program program(rig);
  program.open();
  const std::uint32_t pd = program.make_pd(), cq = program.make_cq();
  constexpr std::size_t kCount = Sampler::kVisitsInPiece + 10;
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(program.ask(abi::Command::kCreateQp, program.rc_qp(pd, cq)).header.error, 0);
  }
  sampler.on_event();
  sampler.on_time(rig.now);
  EXPECT_TRUE(sampler.history().samples().empty());
  EXPECT_EQ(sampler.next_deadline(), rig.now + Sampler::kPause);
  rig.now = sampler.next_deadline();
  sampler.on_time(rig.now);
  ASSERT_EQ(sampler.history().samples().size(), 1U);
  const auto json =
      nlohmann::json::parse(history_json(sampler.history(), {"uroce0"}, Sampler::kInterval, true));
  const auto& names = json["columns"]["daemon"];
  const auto place = std::find(names.begin(), names.end(), "queue_pairs") - names.begin();
  EXPECT_EQ(json["samples"][0]["daemon"][static_cast<std::size_t>(place)], kCount);
  EXPECT_EQ(json["columns"]["device"].size(), json["samples"][0]["devices"][0].size());
  EXPECT_EQ(json["columns"]["latency"].size(), json["samples"][0]["latencies"][0].size());
  EXPECT_EQ(json["columns"]["latency"][1], "send_p99_ns");
  EXPECT_EQ(json["samples"][0]["monotonic_ms"], rig.now / kNanosecondsPerMillisecond);
  const auto of_others =
      nlohmann::json::parse(history_json(sampler.history(), {"uroce0"}, Sampler::kInterval, false));
  const auto& known = of_others["columns"]["daemon"];
  EXPECT_EQ(std::count(known.begin(), known.end(), "queue_pairs"), 0);
  EXPECT_EQ(known.size(), of_others["samples"][0]["daemon"].size());
  EXPECT_TRUE(of_others["columns"]["levels"].empty());
  EXPECT_TRUE(of_others["columns"]["latency"].empty())
      << "the sum over all users would reveal another user's";
  EXPECT_FALSE(of_others["samples"][0].contains("latencies"));
}

}  // namespace
}  // namespace uroce::control
