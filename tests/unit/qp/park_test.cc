// Memory that isn't resident parks one role of one queue pair: nothing is lost or done twice,
// neither side gives up, and after resume() the role continues where it was. The page-fault
// machinery isn't needed for that: memory is a fake that returns kNotResident.

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "tests/unit/qp/fake_memory.h"
#include "tests/unit/qp/qp_pair.h"

namespace uroce::test {
namespace {

using abi::WcStatus;
using abi::WrOpcode;

class Park : public testing::Test {
 protected:
  ~Park() override {
    missing = nullptr;
    answer_where_missing = Access::kNotResident;
  }

  // This end's memory isn't resident from `offset` on.
  static void page_out(const Endpoint& end, std::size_t offset) {
    const std::uint64_t start = end.address(offset);
    const std::uint64_t stop = end.address(end.memory.size());
    missing = [=](std::uint64_t address) { return address >= start && address < stop; };
  }
  void page_in(Endpoint& end) {
    missing = nullptr;
    TxBatch tx;
    Turn turn = end.turn(pair.now, tx);
    end.qp().resume(turn);
  }
  void expect_success(std::uint64_t id) {
    const auto cqe = pair.a.poll_send();
    ASSERT_TRUE(cqe.has_value()) << id;
    EXPECT_EQ(cqe->wr_id, id);
    EXPECT_EQ(cqe->status, WcStatus::kSuccess);
  }
  [[nodiscard]] bool same(std::size_t at_a, std::size_t at_b, std::size_t length) const {
    const auto* from = pair.a.memory.data() + at_a;
    return std::equal(from, from + length, pair.b.memory.data() + at_b);
  }

  // The only failure that this end reports.
  static Failure failure_of(const Endpoint& end) {
    const auto& reports = end.events.reports;
    EXPECT_EQ(reports.size(), 1U);
    return reports.empty() ? Failure::kNone : reports.front().failure;
  }

  QpPair pair;
};

TEST_F(Park, TheRequesterStopsWhereItsMemoryIsMissing) {
  fill_pattern(pair.a.memory, 1);
  page_out(pair.a, 3'000);
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 1'000)});
  pair.a.post_send(rdma_wr(2, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 5'000)});
  pair.exchange();
  expect_success(1);
  EXPECT_FALSE(pair.a.poll_send().has_value());
  EXPECT_FALSE(pair.a.qp().has_work());

  page_in(pair.a);
  pair.exchange();
  expect_success(2);
  EXPECT_TRUE(same(0, 0, 5'000));
}

TEST_F(Park, TheCompleterKeepsTheAnswerAndTheTimer) {
  fill_pattern(pair.b.memory, 2);
  page_out(pair.a, 1'024);
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaRead, pair.b, 0), std::array{pair.a.sge(0, 2'000)});
  for (const auto& frame : pair.transmit(pair.a)) {
    EXPECT_EQ(pair.deliver(pair.b, *frame), Drop::kNone);
  }
  const auto answers = pair.transmit(pair.b);
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(pair.deliver(pair.a, *answers[0]), Drop::kNone);
  EXPECT_EQ(pair.deliver(pair.a, *answers[1]), Drop::kNone);
  EXPECT_EQ(pair.step, Step::kParked);
  // The response has arrived, only its destination isn't resident: that is no reason to request it
  // again.
  EXPECT_EQ(pair.a.qp().deadline(), kNever);
  EXPECT_FALSE(pair.a.poll_send().has_value());

  page_in(pair.a);
  EXPECT_NE(pair.a.qp().deadline(), kNever);
  EXPECT_EQ(pair.deliver(pair.a, *answers[1]), Drop::kNone);
  EXPECT_EQ(pair.step, Step::kDone);
  expect_success(1);
  EXPECT_TRUE(same(0, 0, 2'000));
  EXPECT_EQ(pair.a.qp().counters().requests_resent, 0U);
}

TEST_F(Park, TheResponderKeepsTheRequest) {
  fill_pattern(pair.a.memory, 3);
  pair.b.post_recv(9, std::array{pair.b.sge(8'000, 1'000)});
  page_out(pair.b, 0);
  pair.a.post_send(send_wr(1, WrOpcode::kSend), std::array{pair.a.sge(0, 1'000)});
  const auto frames = pair.transmit(pair.a);
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_EQ(pair.deliver(pair.b, *frames[0]), Drop::kNone);
  EXPECT_EQ(pair.step, Step::kParked);
  EXPECT_FALSE(pair.b.poll_recv().has_value());

  page_in(pair.b);
  EXPECT_EQ(pair.deliver(pair.b, *frames[0]), Drop::kNone);
  EXPECT_EQ(pair.step, Step::kDone);
  EXPECT_TRUE(pair.b.poll_recv().has_value());
  pair.exchange();
  expect_success(1);
  EXPECT_TRUE(same(0, 8'000, 1'000));
}

TEST_F(Park, TheResponderStopsAnsweringWhereItsMemoryIsMissing) {
  fill_pattern(pair.b.memory, 4);
  page_out(pair.b, 1'024);
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaRead, pair.b, 0), std::array{pair.a.sge(0, 3'000)});
  pair.exchange();
  EXPECT_FALSE(pair.a.poll_send().has_value());
  EXPECT_FALSE(pair.b.qp().has_work());
  page_in(pair.b);
  pair.exchange();
  expect_success(1);
  EXPECT_TRUE(same(0, 0, 3'000));
}

// The answer takes longer than all of the peer's retries: each time it is told to retry later.
TEST_F(Park, APeerThatRetriesIsToldToWait) {
  fill_pattern(pair.b.memory, 6);
  page_out(pair.b, 0);
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaRead, pair.b, 0), std::array{pair.a.sge(0, 3'000)});
  pair.a.post_send(rdma_wr(2, WrOpcode::kRdmaWrite, pair.b, 10'000),
                   std::array{pair.a.sge(10'000, 8)});
  pair.run({}, 40);
  EXPECT_FALSE(pair.a.poll_send().has_value());
  EXPECT_GT(pair.a.qp().counters().rnr_nak_retry_err, 10U);
  EXPECT_LE(pair.a.qp().counters().local_ack_timeout_err, 1U);

  page_in(pair.b);
  EXPECT_TRUE(pair.b.qp().has_work());
  pair.exchange();
  expect_success(1);
  expect_success(2);
  EXPECT_TRUE(same(0, 0, 3'000));
}

// Not in the middle of a response: Linux's requester accepts nothing but the rest of it there.
TEST_F(Park, APeerThatHasPartOfAResponseIsNotToldToWait) {
  page_out(pair.b, 1'024);
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaRead, pair.b, 0), std::array{pair.a.sge(0, 3'000)});
  pair.run({}, 4);
  EXPECT_FALSE(pair.a.poll_send().has_value());
  EXPECT_EQ(pair.b.qp().counters().rnr_naks_sent, 0U);
  page_in(pair.b);
  pair.exchange();
  expect_success(1);
}

// Other errors after a parked answer are reported, too.
TEST_F(Park, AnEmptyReceiveQueueAfterAParkedAnswerIsReported) {
  page_out(pair.b, 0);
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaRead, pair.b, 0), std::array{pair.a.sge(0, 8)});
  pair.a.post_send(send_wr(2, WrOpcode::kSend), std::array{pair.a.sge(0, 8)});
  pair.run({}, 40);
  EXPECT_FALSE(pair.a.poll_send().has_value());
  EXPECT_LE(pair.a.qp().counters().local_ack_timeout_err, 1U);
  page_in(pair.b);
  pair.run({}, 4);
  expect_success(1);
  pair.b.post_recv(9, std::array{pair.b.sge(8'000, 8)});
  pair.run();
  expect_success(2);
}

// A NAK that became due while an answer is parked isn't lost.
TEST_F(Park, AGapAfterAParkedAnswerIsFilledLater) {
  fill_pattern(pair.b.memory, 7);
  page_out(pair.b, 0);
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaRead, pair.b, 0), std::array{pair.a.sge(0, 1'000)});
  pair.a.post_send(send_wr(2, WrOpcode::kSend, 0), std::array{pair.a.sge(0, 0)});
  pair.a.post_send(send_wr(3, WrOpcode::kSend), std::array{pair.a.sge(0, 0)});
  pair.b.post_recv(8, {});
  pair.b.post_recv(9, {});
  bool lost = false;
  pair.run([&](const Packet& packet,
               bool to_b) { return to_b && packet.psn == 101 && !std::exchange(lost, true); },
           4);
  EXPECT_FALSE(pair.a.poll_send().has_value());
  page_in(pair.b);
  pair.run();
  expect_success(1);
  expect_success(3);
}

// What the page fault has found decides which reason is told, on each of the three sides.
struct Found {
  Access access;
  Failure of_request, of_receive, of_send;
};

class ParkInVain : public Park, public testing::WithParamInterface<Found> {
 protected:
  ParkInVain() { answer_where_missing = GetParam().access; }
};

TEST_P(ParkInVain, ThePeersRequestIsRefused) {
  page_out(pair.b, 0);
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 1'000)});
  pair.exchange();
  EXPECT_EQ(failure_of(pair.b), GetParam().of_request);
  EXPECT_EQ(pair.a.poll_send()->status, WcStatus::kRemOpErr);
}

TEST_P(ParkInVain, TheReceiveFails) {
  pair.b.post_recv(9, std::array{pair.b.sge(8'000, 1'000)});
  page_out(pair.b, 0);
  pair.a.post_send(send_wr(1, WrOpcode::kSend), std::array{pair.a.sge(0, 1'000)});
  pair.exchange();
  EXPECT_EQ(failure_of(pair.b), GetParam().of_receive);
  EXPECT_EQ(pair.b.poll_recv()->status, WcStatus::kLocProtErr);
}

TEST_P(ParkInVain, TheSendFails) {
  page_out(pair.a, 0);
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 1'000)});
  pair.exchange();
  EXPECT_EQ(failure_of(pair.a), GetParam().of_send);
  EXPECT_EQ(pair.a.poll_send()->status, WcStatus::kLocProtErr);
}

INSTANTIATE_TEST_SUITE_P(All, ParkInVain,
                         testing::Values(Found{Access::kUnmapped, Failure::kRemoteUnmapped,
                                               Failure::kReceiveUnmapped, Failure::kSendUnmapped},
                                         Found{Access::kLate, Failure::kRemoteLate,
                                               Failure::kReceiveLate, Failure::kSendLate},
                                         Found{Access::kLost, Failure::kRemoteLost,
                                               Failure::kReceiveLost, Failure::kSendLost}));

TEST_F(Park, AnErrorEndsIt) {
  page_out(pair.a, 0);
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 8)});
  pair.exchange();
  pair.a.to_error(pair.now);
  const auto cqe = pair.a.poll_send();
  ASSERT_TRUE(cqe.has_value());
  EXPECT_EQ(cqe->status, WcStatus::kWrFlushErr);
  page_in(pair.a);
  EXPECT_FALSE(pair.a.qp().has_work());
  EXPECT_EQ(pair.a.qp().deadline(), kNever);
}

}  // namespace
}  // namespace uroce::test
