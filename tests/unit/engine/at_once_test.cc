// Pages that a worker brings in itself: as many as others have time for.

#include <gtest/gtest.h>
#include <sys/sysinfo.h>

#include "dataplane/engine/page_budget.h"
#include "tests/unit/engine/worker_fixture.h"
#include "tests/unit/mmu/paged_program.h"

namespace uroce::test {
namespace {

constexpr std::uint64_t kPage = Mirror::kPage;

// Station b has memory that is paged on demand; its program has described it.
class AtOnceTest : public ::testing::Test {
 protected:
  void SetUp() override {
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

  // An 8-byte WRITE to a page of b, on its way to b.
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

  FaultQueue queue_{1};
  Stations stations_{{}, {}, &queue_};
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
  ASSERT_TRUE(done()) << "none for a long time";
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

TEST_F(AtOnceTest, WhatWaitsForOtherWorkGoesOnWhenThatIsDone) {
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

TEST(PageBudget, SoManyWaitForTheirTurn) {
  PageBudget budget;
  budget.begin(1);
  EXPECT_EQ(budget.deadline(), kNever);
  for (std::uint32_t qpn = 0; qpn < PageBudget::kWaitingMax; ++qpn) {
    EXPECT_TRUE(budget.wait(qpn));
  }
  EXPECT_TRUE(budget.wait(0)) << "it waits already";
  EXPECT_FALSE(budget.wait(PageBudget::kWaitingMax));
  EXPECT_EQ(budget.next(), 0U);
  EXPECT_TRUE(budget.wait(PageBudget::kWaitingMax));
}

TEST(PageBudget, ATurnHasSoManyPages) {
  PageBudget budget;
  budget.begin(1);
  for (std::uint32_t page = 0; page < PageBudget::kTurnMax; ++page) {
    EXPECT_TRUE(budget.may_bring());
    budget.brought();
  }
  EXPECT_FALSE(budget.may_bring());
  budget.set_busy(false);
  budget.begin(1);
  EXPECT_TRUE(budget.may_bring());
}

}  // namespace
}  // namespace uroce::test
