// A queue pair that is requester and responder at the same time: both roles get their share of what
// may be sent.

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

#include "tests/unit/qp/qp_pair.h"

namespace uroce::test {
namespace {

using abi::WrOpcode;

constexpr std::size_t kBulk = 200'000;
constexpr std::uint32_t kGrant = 8'448;  // what a worker grants per visit
constexpr std::uint32_t kFrame = 1'100;  // more than a frame with 1,024 bytes of payload has

// What end a sends, in bytes.
struct Sent {
  std::int64_t answers = 0;
  std::int64_t requests = 0;
};

class RoleShare : public testing::Test {
 protected:
  // The peer reads from a, which then has `kBulk` bytes of responses to send.
  void given_a_read(std::uint64_t id) {
    const abi::Sge sge = pair_.b.sge(0, kBulk);
    pair_.b.post_send(rdma_wr(id, WrOpcode::kRdmaRead, pair_.a, 0), {&sge, 1});
    for (const auto& frame : pair_.transmit(pair_.b)) {
      EXPECT_EQ(pair_.deliver(pair_.a, *frame), Drop::kNone);
    }
  }
  void given_a_write(std::size_t length = kBulk) {
    const abi::Sge sge = pair_.a.sge(0, length);
    pair_.a.post_send(rdma_wr(++writes_, WrOpcode::kRdmaWrite, pair_.b, kBulk), {&sge, 1});
    pair_.a.ring(pair_.now);
  }

  Sent transmit(std::uint32_t bytes_max) {
    Sent sent;
    QpPair::Frames lent;
    TxBatch tx;
    for (int i = 0; i < 32; ++i) {
      lent.push_back(std::make_unique<HeapFrame>());
      tx.put_back(&lent.back()->frame);
    }
    Turn turn = pair_.a.turn(pair_.now, tx);
    (void)pair_.a.qp().transmit(turn, bytes_max);
    for (std::uint32_t i = 0; i < tx.ready_count(); ++i) {
      Frame& frame = *tx.ready()[i];
      EXPECT_EQ(parse(frame), Drop::kNone);
      const bool request = opcode_info(frame.packet.opcode).request;
      (request ? sent.requests : sent.answers) += frame.length;
    }
    return sent;
  }

  // Calls transmit() with this grant `calls` times.
  Sent transmit_often(std::uint32_t bytes_max, int calls) {
    Sent sum;
    for (int i = 0; i < calls; ++i) {
      const Sent sent = transmit(bytes_max);
      sum.answers += sent.answers;
      sum.requests += sent.requests;
    }
    return sum;
  }

  QpPair pair_;
  std::uint64_t writes_ = 100;
};

TEST_F(RoleShare, APeerThatAlwaysReadsLeavesHalfToOurRequests) {
  given_a_read(1);
  given_a_read(2);
  given_a_write();
  const Sent sent = transmit_often(kGrant, 10);
  EXPECT_GT(sent.requests, 4 * kGrant);
  EXPECT_LE(std::abs(sent.answers - sent.requests), 2 * kFrame);
}

// The rest of a grant may be less than a frame, visit after visit.
TEST_F(RoleShare, GrantsOfOneFrameAlternate) {
  given_a_read(1);
  given_a_write();
  for (int i = 0; i < 20; ++i) {
    const Sent sent = transmit_often(1, 2);
    EXPECT_GT(sent.answers, 0) << i;
    EXPECT_GT(sent.requests, 0) << i;
  }
}

TEST_F(RoleShare, ASmallRequestIsSentInTheFirstVisitAndTheRestIsForResponses) {
  given_a_read(1);
  given_a_read(2);
  for (int i = 0; i < 5; ++i) {
    given_a_write(8);
    const Sent sent = transmit(kGrant);
    EXPECT_GT(sent.requests, 0) << i;
    EXPECT_LT(sent.requests, 200) << i;
    EXPECT_GT(sent.answers, kGrant - 2 * kFrame) << i;
  }
}

// Unused shares don't accumulate: a response after a long run of requests has no claim to more than
// its share.
TEST_F(RoleShare, UnusedSharesAreNotSavedUp) {
  given_a_write();
  (void)transmit_often(kGrant, 5);
  given_a_read(1);
  const Sent sent = transmit_often(kGrant, 4);
  EXPECT_LE(std::abs(sent.answers - sent.requests), 2 * kFrame);
}

// After a timeout the whole window is retransmitted, which doesn't have to wait for the peer's
// READs.
TEST_F(RoleShare, RetransmissionsHaveTheirShareToo) {
  given_a_write();
  (void)transmit_often(kGrant, 8);  // all of it is lost
  given_a_read(1);
  given_a_read(2);
  ASSERT_TRUE(pair_.next_deadline());
  const Sent sent = transmit_often(kGrant, 10);
  EXPECT_LE(std::abs(sent.answers - sent.requests), 2 * kFrame);
  EXPECT_GT(pair_.a.qp().counters().requests_resent, 20U);
}

// The other way round: bulk requests don't delay a response that the peer requests again.
TEST_F(RoleShare, RepeatedResponsesHaveTheirShareToo) {
  given_a_read(1);
  while (transmit(kGrant).answers > 0) {  // all of it is lost
  }
  given_a_write();
  ASSERT_TRUE(pair_.next_deadline());
  for (const auto& frame : pair_.transmit(pair_.b)) {
    EXPECT_EQ(pair_.deliver(pair_.a, *frame), Drop::kNone);
  }
  ASSERT_EQ(pair_.a.qp().counters().duplicate_request, 1U);
  const Sent sent = transmit_often(kGrant, 10);
  EXPECT_GT(sent.answers, 4 * kGrant);
  EXPECT_LE(std::abs(sent.answers - sent.requests), 2 * kFrame);
}

}  // namespace
}  // namespace uroce::test
