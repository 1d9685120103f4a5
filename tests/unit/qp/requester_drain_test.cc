// The send queue in SQD: what was begun is finished, nothing else begins, and the program is told.

#include <array>

#include "tests/unit/qp/expect_success.h"
#include "tests/unit/qp/qp_pair.h"

namespace uroce::test {
namespace {

using abi::WcStatus;
using abi::WrOpcode;

// Of two READs the first is done, and the second hasn't begun: only one may be outstanding.
void drain_with_a_read_left(QpPair& pair) {
  for (std::uint64_t id = 1; id <= 2; ++id) {
    pair.a.post_send(rdma_wr(id, WrOpcode::kRdmaRead, pair.b, 0), std::array{pair.a.sge(0, 8)});
  }
  const auto begun = pair.transmit(pair.a);
  ASSERT_EQ(begun.size(), 1U);
  pair.a.modify({.state = QpState::kSqd}, kQpMaskState, pair.now);
  EXPECT_EQ(pair.deliver(pair.b, *begun[0]), Drop::kNone);
  pair.exchange();
  expect_success(pair.a, 1);
}

// 10.3.1.1.6: in SQD begun work is finished, then the program gets the event; nothing else starts.
TEST(RequesterDrain, DrainsAndGoesOn) {
  QpPair pair;
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 3'000)});
  const auto begun = pair.transmit(pair.a, 1);
  ASSERT_EQ(begun.size(), 1U);
  pair.a.modify({.state = QpState::kSqd, .sqd_async_notify = true}, kQpMaskState, pair.now);
  pair.a.post_send(rdma_wr(2, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 8)});
  EXPECT_FALSE(pair.a.announced(AsyncEvent::kSqDrained));

  EXPECT_EQ(pair.deliver(pair.b, *begun[0]), Drop::kNone);
  pair.exchange();

  EXPECT_TRUE(pair.a.announced(AsyncEvent::kSqDrained));
  expect_success(pair.a, 1);
  EXPECT_FALSE(pair.a.poll_send().has_value());
  pair.a.modify({.state = QpState::kRts}, kQpMaskState, pair.now);
  pair.exchange();
  expect_success(pair.a, 2);
}

// A request that will be refused hasn't begun either: it fails once the queue pair sends again.
TEST(RequesterDrain, DrainsBeforeAnInvalidRequest) {
  QpPair pair;
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 8)});
  abi::SendWr wrong = rdma_wr(2, WrOpcode::kRdmaWrite, pair.b, 0);
  wrong.opcode = WrOpcode::kTso;
  pair.a.post_send(wrong, std::array{pair.a.sge(0, 8)});
  const auto begun = pair.transmit(pair.a);
  ASSERT_EQ(begun.size(), 1U);
  pair.a.modify({.state = QpState::kSqd, .sqd_async_notify = true}, kQpMaskState, pair.now);

  EXPECT_EQ(pair.deliver(pair.b, *begun[0]), Drop::kNone);
  pair.exchange();
  EXPECT_TRUE(pair.a.announced(AsyncEvent::kSqDrained));
  expect_success(pair.a, 1);
  EXPECT_EQ(pair.a.qp().state(), QpState::kSqd);

  pair.a.modify({.state = QpState::kRts}, kQpMaskState, pair.now);
  pair.exchange();
  const auto cqe = pair.a.poll_send();
  ASSERT_TRUE(cqe.has_value());
  EXPECT_EQ(cqe->status, WcStatus::kLocQpOpErr);
  EXPECT_EQ(pair.a.qp().state(), QpState::kErr);
}

// 10.3.1.1.6: attributes may be changed in SQD, and the event still comes, once.
TEST(RequesterDrain, AnnouncesThatItIsDrainedAlsoAfterChangesInSqd) {
  QpPair pair;
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 8)});
  const auto begun = pair.transmit(pair.a);
  pair.a.modify({.state = QpState::kSqd, .sqd_async_notify = true}, kQpMaskState, pair.now);
  pair.a.modify({.state = QpState::kSqd, .timeout = 15}, kQpMaskState | kQpMaskTimeout, pair.now);
  EXPECT_EQ(pair.deliver(pair.b, *begun[0]), Drop::kNone);
  pair.exchange();
  EXPECT_TRUE(pair.a.announced(AsyncEvent::kSqDrained));
  pair.a.events.entries.clear();
  pair.a.modify({.state = QpState::kSqd, .timeout = 14}, kQpMaskState | kQpMaskTimeout, pair.now);
  EXPECT_FALSE(pair.a.announced(AsyncEvent::kSqDrained));
}

// In SQD the program may forbid READs, though it has posted some. They fail, and don't wait.
TEST(RequesterDrain, FailsReadsThatWereForbiddenLater) {
  QpPair pair({.max_rd_atomic = 1});
  drain_with_a_read_left(pair);
  pair.a.modify({.max_rd_atomic = 0}, kQpMaskMaxRdAtomic, pair.now);
  pair.a.modify({.state = QpState::kRts}, kQpMaskState, pair.now);
  pair.exchange();
  const auto cqe = pair.a.poll_send();
  ASSERT_TRUE(cqe.has_value());
  EXPECT_EQ(cqe->status, WcStatus::kLocQpOpErr);
}

// What counts is what is allowed when the queue pair sends again.
TEST(RequesterDrain, SendsReadsThatWereForbiddenAndAllowedAgain) {
  QpPair pair({.max_rd_atomic = 1});
  drain_with_a_read_left(pair);
  pair.a.modify({.max_rd_atomic = 0}, kQpMaskMaxRdAtomic, pair.now);
  pair.a.modify({.max_rd_atomic = 1}, kQpMaskMaxRdAtomic, pair.now);
  pair.a.modify({.state = QpState::kRts}, kQpMaskState, pair.now);
  pair.exchange();
  expect_success(pair.a, 2);
}

TEST(RequesterDrain, AnnouncesADrainedQueueAtOnceWhenNothingIsOutstanding) {
  QpPair pair;
  pair.a.modify({.state = QpState::kSqd, .sqd_async_notify = true}, kQpMaskState, pair.now);
  EXPECT_TRUE(pair.a.announced(AsyncEvent::kSqDrained));
}

}  // namespace
}  // namespace uroce::test
