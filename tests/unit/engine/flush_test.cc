// FLUSHes to persistence, which a worker hands to the flush thread, the one that waits for disks;
// here the test plays that thread.

#include <gtest/gtest.h>

#include <deque>

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
  // Of another user, in the same daemons.
  PairConfig flushable(std::uint32_t qpn, std::uint64_t user) {
    PairConfig config = flushable();
    config.a.qpn = qpn;
    config.b.qpn = qpn + 1;
    config.b.user = user;
    config.a.keys = &pair().a.keys();
    config.b.keys = &pair().b.keys();
    return config;
  }
  QpPair& pair() { return stations_.pair; }
  static abi::SendWr flush_wr(std::uint64_t id, const QpPair& to) {
    abi::SendWr wr = rdma_wr(id, abi::WrOpcode::kFlush, to.b, 0);
    wr.flush = {.placement = kPersistent, .selectivity = 0, .length = 4096};
    return wr;
  }
  void post_flush(std::uint64_t id) {
    pair().a.post_send(flush_wr(id, pair()), {});
    stations_.a.ring();
  }
  [[nodiscard]] const WorkerCounters& counters() const { return stations_.b.worker.counters(); }

  PagingQueues queues_{1, {}};
  Stations stations_{flushable(), {}, &queues_};
  std::deque<QpPair> others_;
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

// As many as it leaves to others, so that each further user finds some.
TEST_F(FlushTest, AUserLeavesRecordsToOthers) {
  const auto flushes_of = [&](std::uint32_t qpn, std::uint64_t user) {
    QpPair& other = others_.emplace_back(flushable(qpn, user));
    QpAttributes attributes = other.attributes(false);
    attributes.access |= kAccessFlushPersistent;
    other.b.modify(attributes, kQpMaskAccess);
    stations_.b.add(other.b.qp());
    const std::uint32_t slot = stations_.a.add(other.a.qp());
    other.a.post_send(flush_wr(1, other), {});
    stations_.a.ring(slot);
    const std::uint64_t before = counters().flushes;
    stations_.settle();
    return counters().flushes - before;
  };
  constexpr std::uint32_t kLeft = 4;
  while (queues_.flushes.left() > kLeft) {
    ASSERT_NE(queues_.flushes.take({.length = 8}), nullptr);
  }
  EXPECT_EQ(flushes_of(100, 1'000), 1U);
  EXPECT_EQ(flushes_of(102, 1'000), 1U);
  EXPECT_EQ(flushes_of(104, 1'000), 0U) << "it has two, and two are left";
  EXPECT_EQ(counters().flushes_starved, 1U);
  EXPECT_EQ(flushes_of(106, 1'001), 1U);
  EXPECT_EQ(flushes_of(108, 1'001), 0U);
  // One that is done is another one's.
  Flush* const flush = queues_.flushes.next();
  queues_.flushes.resume(flush);
  const std::uint64_t before = counters().flushes;
  stations_.settle();
  EXPECT_EQ(counters().flushes - before, 1U);
  for (QpPair& other : others_) {
    stations_.a.worker.remove_qp(other.a.qp());
    stations_.b.worker.remove_qp(other.b.qp());
  }
}

}  // namespace
}  // namespace uroce::test
