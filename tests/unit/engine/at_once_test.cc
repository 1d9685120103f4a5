// Pages that a worker populates itself: only as many as its other work leaves time for.

#include <gtest/gtest.h>
#include <sys/sysinfo.h>

#include "dataplane/engine/turn/page_budget.h"
#include "tests/unit/engine/worker_fixture.h"
#include "tests/unit/mmu/paged_program.h"

namespace uroce::test {
namespace {

constexpr std::uint64_t kPage = Mirror::kPage;

// How long populating a page seems to take: the time between two readings of the clock.
Duration page_takes = 0;
Time look_at_clock() {
  static Time now = 0;
  return now += page_takes;
}

// Station b has memory that is paged on demand; its program has described it.
class AtOnceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    page_takes = 0;
    struct sysinfo facts = {};
    ASSERT_EQ(::sysinfo(&facts), 0);
    if (facts.totalswap != 0) {
      GTEST_SKIP() << "this machine has swap space: every page takes a fault";
    }
    Region::Config region;
    region.pd = stations_.pair.b.qp().config().pd;
    region.access = kAccessLocalWrite | kAccessRemoteWrite;
    region.iova = PagedProgram::kBase;
    region.length = program_.length;
    region.program_address = PagedProgram::kBase;
    region.mirror = program_.mirror;
    key_ = stations_.pair.b.keys().add(std::make_unique<Region>(std::move(region))).value();
    const MirrorPiece piece = program_.everything();
    program_.mirror->describe(PagedProgram::kBase, PagedProgram::kBase + program_.length,
                              {&piece, 1}, program_.mirror->changes());
  }

  // Sends an 8-byte WRITE to a page of b.
  void write(std::uint64_t page) {
    QpPair& pair = stations_.pair;
    const abi::Sge sge = pair.a.sge(0, 8);
    abi::SendWr wr = rdma_wr(page, abi::WrOpcode::kRdmaWrite, pair.b, 0);
    wr.remote_address = PagedProgram::kBase + page * kPage;
    wr.rkey = key_;
    pair.a.post_send(wr, {&sge, 1});
    stations_.a.ring();
    stations_.a.worker.poll(stations_.now);
  }
  // A turn of b with other work.
  void busy_turn() {
    stations_.b.ring();
    stations_.b.worker.poll(stations_.now);
  }
  bool done() {
    stations_.a.worker.poll(stations_.now);
    return stations_.pair.a.poll_send().has_value();
  }
  [[nodiscard]] const WorkerCounters& counters() const { return stations_.b.worker.counters(); }

  PagingQueues queues_{1, {}};
  Stations stations_{{}, {}, &queues_, nullptr, Stalls::thread_usage, look_at_clock};
  Quiescence quiescence_;
  PagedProgram program_{quiescence_};
  std::uint32_t key_ = 0;
};

TEST_F(AtOnceTest, AWorkerWithoutOtherWorkBringsInEachPage) {
  for (std::uint64_t page = 0; page < 20; ++page) {
    write(page);
    stations_.settle();
    ASSERT_TRUE(done());
  }
  EXPECT_EQ(counters().page_faults_at_once, 20U);
  EXPECT_EQ(counters().page_faults, 0U);
}

TEST_F(AtOnceTest, OtherWorkComesFirst) {
  busy_turn();
  write(0);
  busy_turn();
  ASSERT_TRUE(done()) << "none was populated for a long time";
  write(1);
  for (int turn = 0; turn < 10; ++turn) {
    busy_turn();
    EXPECT_FALSE(done());
  }
  EXPECT_EQ(counters().page_faults_deferred, 1U);
  EXPECT_EQ(stations_.b.worker.next_deadline(), stations_.now + PageBudget::kInterval);
  stations_.now += PageBudget::kInterval;
  busy_turn();
  EXPECT_TRUE(done());
}

TEST_F(AtOnceTest, OtherWorkKeepsItsShareHoweverLongPagesTake) {
  page_takes = 20 * kNanosecondsPerMicrosecond;
  busy_turn();
  write(0);
  busy_turn();
  ASSERT_TRUE(done());
  write(1);
  busy_turn();
  EXPECT_EQ(stations_.b.worker.next_deadline(), stations_.now + PageBudget::kShare * page_takes);
  stations_.now += PageBudget::kShare * page_takes;
  busy_turn();
  EXPECT_TRUE(done());
}

TEST_F(AtOnceTest, DeferredPagesAreBroughtInWhenOtherWorkIsDone) {
  busy_turn();
  write(0);
  busy_turn();
  write(1);
  busy_turn();
  stations_.settle();
  EXPECT_TRUE(done());
  EXPECT_TRUE(done());
  EXPECT_EQ(counters().page_faults, 0U);
}

// Two queue pairs of b send from untouched memory; the first one always has more to send.
TEST_F(AtOnceTest, AQueuePairThatAlwaysNeedsPagesDoesNotStarveOthers) {
  PairConfig config;
  config.a.qpn = 27;
  config.b.qpn = 28;
  QpPair second(config);
  stations_.a.add(second.a.qp());
  stations_.b.add(second.b.qp());
  const auto post = [&](Endpoint& from, std::uint64_t page) {
    const abi::Sge sge{PagedProgram::kBase + page * kPage, 8, key_};
    from.post_send(rdma_wr(page, abi::WrOpcode::kRdmaWrite, stations_.pair.a, 0), {&sge, 1});
  };
  std::uint64_t next = 0;
  for (; next < 8; ++next) {
    post(stations_.pair.b, next);
  }
  post(second.b, 500);
  stations_.b.ring(1);
  bool done = false;
  for (int turn = 0; turn < 40 && !done; ++turn) {
    busy_turn();
    stations_.a.worker.poll(stations_.now);
    while (stations_.pair.b.poll_send()) {
      post(stations_.pair.b, next++);
    }
    done = second.b.poll_send().has_value();
    stations_.now += 10 * kNanosecondsPerMicrosecond;
  }
  EXPECT_TRUE(done);
  stations_.a.worker.remove_qp(second.a.qp());
  stations_.b.worker.remove_qp(second.b.qp());
}

TEST_F(AtOnceTest, FaultTimesAreCounted) {
  program_.mirror->faults_only();
  write(0);
  stations_.settle();
  PageFault* const fault = queues_.faults.next();
  ASSERT_NE(fault, nullptr);
  constexpr Duration kTook = 40 * kNanosecondsPerMicrosecond;
  stations_.now += kTook;
  fault->times.populated = stations_.now;
  fault->outcome = Access::kLost;
  queues_.faults.resume(fault);
  EXPECT_EQ(stations_.b.worker.fault_times().count(), 0U);
  stations_.settle();
  EXPECT_EQ(stations_.b.worker.fault_times().count(), 1U);
  EXPECT_EQ(stations_.b.worker.fault_times().max(), kTook);
}

// A queue pair of which two roles need a fault record when none is free retries at a constant rate,
// not twice as often each time.
TEST_F(AtOnceTest, AQueuePairWithoutARecordIsListedOnce) {
  program_.mirror->faults_only();
  while (queues_.faults.take({.length = 8}) != nullptr) {
  }
  const abi::Sge sge{PagedProgram::kBase + 7 * kPage, 8, key_};
  stations_.pair.b.post_send(rdma_wr(1, abi::WrOpcode::kRdmaRead, stations_.pair.a, 0), {&sge, 1});
  busy_turn();
  stations_.a.worker.poll(stations_.now);
  write(0);
  busy_turn();
  const std::uint64_t before = counters().page_faults_starved;
  constexpr std::uint64_t kTimes = 16;
  for (std::uint64_t time = 0; time < kTimes; ++time) {
    stations_.now += kNanosecondsPerMillisecond;
    stations_.b.worker.poll(stations_.now);
  }
  EXPECT_LE(counters().page_faults_starved - before, 2 * kTimes);
  EXPECT_GE(counters().page_faults_starved - before, kTimes);
}

// A queue pair that retries often and in vain in between doesn't delay the retries of others.
TEST_F(AtOnceTest, RetriesForARecordAreNotDelayedByOthers) {
  program_.mirror->faults_only();
  while (queues_.faults.take({.length = 8}) != nullptr) {
  }
  PairConfig config;
  config.a.qpn = 27;
  config.b.qpn = 28;
  QpPair often(config);
  stations_.b.add(often.b.qp());
  write(0);
  busy_turn();
  const abi::Sge sge{PagedProgram::kBase + 7 * kPage, 8, key_};
  often.b.post_send(rdma_wr(1, abi::WrOpcode::kRdmaWrite, stations_.pair.a, 0), {&sge, 1});
  stations_.b.ring(1);
  stations_.b.worker.poll(stations_.now);
  const std::uint64_t before = counters().page_faults_starved;
  constexpr std::uint64_t kMilliseconds = 16;
  for (std::uint64_t half = 0; half < 2 * kMilliseconds; ++half) {
    stations_.now += kNanosecondsPerMillisecond / 2;
    stations_.b.worker.resume(often.b.qp());
    stations_.b.worker.poll(stations_.now);
  }
  EXPECT_GE(counters().page_faults_starved - before, 3 * kMilliseconds);
  stations_.b.worker.remove_qp(often.b.qp());
}

}  // namespace
}  // namespace uroce::test
