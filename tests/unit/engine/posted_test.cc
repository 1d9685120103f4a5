// Work requests that were posted before their queue pair is removed, and whose doorbell no turn has
// served yet.

#include <gtest/gtest.h>

#include <array>

#include "dataplane/engine/worker_state.h"
#include "tests/unit/engine/one_daemon.h"
#include "tests/unit/engine/worker_fixture.h"

namespace uroce::test {
namespace {

PairConfig pair_of(QpType type) {
  PairConfig config;
  config.a.type = type;
  config.b.type = type;
  config.a.queues.send_entries = 512;
  return config;
}

class Posted : public testing::TestWithParam<QpType> {
 protected:
  void post(std::uint64_t id, std::size_t length,
            abi::WrOpcode opcode = abi::WrOpcode::kRdmaWrite) {
    const abi::Sge sge = stations_.pair.a.sge(0, length);
    stations_.pair.a.post_send(rdma_wr(id, opcode, stations_.pair.b, 0, abi::kSignaled), {&sge, 1});
    stations_.a.ring();
  }
  void remove() {
    stations_.a.worker.send_posted(stations_.pair.a.qp());
    stations_.a.worker.remove_qp(stations_.pair.a.qp());
    stations_.a.session.slots.clear();
  }
  [[nodiscard]] std::uint64_t sent() const { return stations_.a.worker.counters().tx_frames; }

  Stations stations_{pair_of(GetParam())};
};

TEST_P(Posted, IsSentBeforeTheQueuePairGoes) {
  fill_pattern(stations_.pair.a.memory, 5);
  post(7, 3'000);
  remove();
  EXPECT_LT(stations_.a.worker.next_deadline(), stations_.now + kNanosecondsPerMillisecond)
      << "a sleeping worker must be woken for it";
  stations_.settle();
  EXPECT_EQ(sent(), 3U);
  EXPECT_TRUE(std::equal(stations_.pair.a.memory.begin(), stations_.pair.a.memory.begin() + 3'000,
                         stations_.pair.b.memory.begin()));
  EXPECT_EQ(stations_.pair.a.poll_send().has_value(), GetParam() == QpType::kUc)
      << "without acknowledgements a sent message is complete";
}

TEST_P(Posted, IsBounded) {
  for (std::uint64_t i = 0; i < 400; ++i) {
    post(i, 1);
  }
  remove();
  stations_.settle();
  EXPECT_GE(sent(), TxBatch::kFramesMax / 2);
  EXPECT_LE(sent(), TxBatch::kFramesMax);
}

TEST_P(Posted, IsBoundedInBytes) {
  post(1, 1'000'000);
  remove();
  stations_.settle();
  EXPECT_GE(sent(), 2U);
  EXPECT_LE(sent(), kPostedBytesMax / 1'024);
}

TEST_P(Posted, AReadIsNotBegun) {
  if (GetParam() == QpType::kUc) {
    return;  // UC has no READs
  }
  post(1, 8);
  post(2, 8, abi::WrOpcode::kRdmaRead);
  remove();
  stations_.settle();
  EXPECT_EQ(sent(), 1U);
}

TEST_P(Posted, IsNotSentInAnotherState) {
  post(1, 8);
  stations_.a.worker.modify_qp(stations_.pair.a.qp(), {.state = QpState::kErr}, kQpMaskState);
  remove();
  stations_.settle();
  EXPECT_EQ(sent(), 0U);
}

TEST_P(Posted, OnAnotherWorkersQueuePairIsLeftAlone) {
  post(1, 8);
  stations_.b.worker.send_posted(stations_.pair.a.qp());
  stations_.settle();
  EXPECT_TRUE(stations_.pair.a.poll_send());
}

// A message that could go without frames waits until the ones before it, which couldn't, are
// answered. When the queue pair is about to go, it doesn't.
TEST(PostedBesideItsPeer, IsSentThoughEarlierMessagesAreUnanswered) {
  OneDaemon daemon(true, small_memory());
  Endpoint& a = daemon.pair.a;
  Endpoint& b = daemon.pair.b;
  fill_pattern(a.memory, 5);
  const abi::Sge word = a.sge(0, 8);
  daemon.post(rdma_wr(1, abi::WrOpcode::kAtomicWrite, b, 0), {&word, 1});
  daemon.post_write(2, 8, 8);
  daemon.station.worker.poll(daemon.now);
  ASSERT_EQ(a.qp().counters().requests_sent, 2U);
  daemon.post_write(3, 8, 16);
  daemon.station.worker.send_posted(a.qp());
  daemon.station.worker.remove_qp(a.qp());
  daemon.station.session.slots.clear();
  daemon.settle();
  EXPECT_TRUE(std::equal(a.memory.begin(), a.memory.begin() + 24, b.memory.begin()));
}

INSTANTIATE_TEST_SUITE_P(OfEachKind, Posted, testing::Values(QpType::kUc, QpType::kRc));

}  // namespace
}  // namespace uroce::test
