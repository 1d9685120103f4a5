// FLUSHes to persistence, which a worker hands to the flush thread, the one that waits for disks;
// here the test plays that thread.

#include <gtest/gtest.h>

#include "tests/unit/engine/worker_fixture.h"

namespace uroce::test {
namespace {

constexpr std::uint32_t kPersistent = 2;  // abi::SendWr::flush.placement

// Requests are posted at station a, and b executes them.
class FlushTest : public ::testing::Test {
 protected:
  FlushTest() {
    QpAttributes attributes = pair().attributes(false);
    attributes.access |= kAccessFlushPersistent;
    pair().b.modify(attributes, kQpMaskAccess);
  }
  static PairConfig flushable() {
    PairConfig config;
    config.b.access |= kAccessFlushPersistent;
    return config;
  }
  QpPair& pair() { return stations_.pair; }
  void post_flush(std::uint64_t id) {
    abi::SendWr wr = rdma_wr(id, abi::WrOpcode::kFlush, pair().b, 0);
    wr.flush = {.placement = kPersistent, .selectivity = 0, .length = 4096};
    pair().a.post_send(wr, {});
    stations_.a.ring();
  }
  [[nodiscard]] const WorkerCounters& counters() const { return stations_.b.worker.counters(); }

  PagingQueues queues_{1, {}};
  Stations stations_{flushable(), {}, &queues_};
};

TEST_F(FlushTest, ParksUntilTheDiskIsDoneAndUsesNoFaultRecord) {
  post_flush(1);
  stations_.post_write(2, 8);
  stations_.settle();
  EXPECT_FALSE(pair().a.poll_send().has_value());
  EXPECT_TRUE(queues_.faults.empty());
  Flush* const flush = queues_.flushes.next();
  ASSERT_NE(flush, nullptr);
  EXPECT_EQ(flush->request.length, 4096U);
  EXPECT_EQ(flush->qpn, pair().b.qp().config().qpn);
  EXPECT_EQ(flush->role, FaultRole::kResponder);
  EXPECT_NE(flush->durable, nullptr);
  EXPECT_EQ(queues_.flushes.next(), nullptr) << "one record per FLUSH";

  EXPECT_FALSE(stations_.b.worker.has_arrivals());
  flush->outcome = flush->write_back();
  queues_.flushes.resume(flush);
  EXPECT_TRUE(stations_.b.worker.has_arrivals());
  stations_.settle();
  for (const std::uint64_t id : {1U, 2U}) {
    const auto cqe = pair().a.poll_send();
    ASSERT_TRUE(cqe.has_value());
    EXPECT_EQ(cqe->wr_id, id);
    EXPECT_EQ(cqe->status, abi::WcStatus::kSuccess);
  }
  EXPECT_EQ(counters().flushes, 1U);
  EXPECT_EQ(counters().page_faults, 0U);
}

TEST_F(FlushTest, FailsAsTheDiskDoes) {
  post_flush(1);
  stations_.settle();
  Flush* const flush = queues_.flushes.next();
  ASSERT_NE(flush, nullptr);
  flush->outcome = Access::kLost;
  queues_.flushes.resume(flush);
  stations_.settle();
  const auto cqe = pair().a.poll_send();
  ASSERT_TRUE(cqe.has_value());
  EXPECT_EQ(cqe->status, abi::WcStatus::kRemOpErr);
}

// Without a free record it parks nevertheless, and retries later.
TEST_F(FlushTest, WaitsForARecord) {
  while (queues_.flushes.take({.length = 8}) != nullptr) {
  }
  post_flush(1);
  stations_.settle();
  EXPECT_EQ(counters().flushes_starved, 1U);
  EXPECT_EQ(counters().flushes, 0U);
  Flush free_again;
  queues_.flushes.give_back(&free_again);
  stations_.now += kNanosecondsPerMillisecond;
  stations_.b.worker.poll(stations_.now);
  EXPECT_EQ(counters().flushes, 1U);
  EXPECT_EQ(queues_.flushes.next(), &free_again);
}

}  // namespace
}  // namespace uroce::test
