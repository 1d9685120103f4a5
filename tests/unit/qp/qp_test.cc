// Which packets a queue pair accepts at all, and its states.

#include "dataplane/qp/qp.h"

#include <gtest/gtest.h>

#include "tests/qp/rig.h"
#include "tests/unit/qp/qp_pair.h"

namespace uroce::test {
namespace {

using abi::WcStatus;
using abi::WrOpcode;

Headers write_only(std::uint32_t psn) {
  return {.opcode = Opcode::kRcWriteOnly, .ack_request = true, .psn = psn};
}

TEST(Qp, TakesPacketsOfItsTypeOnly) {
  QpPair pair;
  for (const Opcode opcode : {Opcode::kUcSendOnly, Opcode::kUdSendOnly, Opcode::kXrcSendFirst}) {
    auto frame = pair.forge(pair.b, {.opcode = opcode, .psn = 100},
                            std::vector<std::byte>(opcode == Opcode::kXrcSendFirst ? 1'024 : 8));
    EXPECT_EQ(pair.deliver(pair.b, *frame), Drop::kWrongQpType);
  }
}

// 10.3.1: RTR receives requests, RTS and SQD everything, the others nothing.
TEST(Qp, TakesPacketsInItsStateOnly) {
  const struct {
    QpState state;
    Drop request, response;
  } rows[] = {
      {QpState::kReset, Drop::kWrongQpState, Drop::kWrongQpState},
      {QpState::kInit, Drop::kWrongQpState, Drop::kWrongQpState},
      {QpState::kRtr, Drop::kNone, Drop::kWrongQpState},
      {QpState::kRts, Drop::kNone, Drop::kStaleResponse},
      {QpState::kSqd, Drop::kNone, Drop::kStaleResponse},
      {QpState::kErr, Drop::kWrongQpState, Drop::kWrongQpState},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(static_cast<int>(row.state));
    QpPair pair;
    pair.b.modify({.state = QpState::kReset}, kQpMaskState, pair.now);
    QpAttributes attributes = pair.attributes(false);
    attributes.state = row.state;
    pair.b.modify(attributes, ~0U, pair.now);
    if (row.state == QpState::kReset) {
      EXPECT_EQ(pair.b.qp().attributes().dest_qpn, 0U);
    }
    EXPECT_EQ(pair.deliver(pair.b, *pair.forge(pair.b, write_only(100))), row.request);
    const Headers ack{.opcode = Opcode::kRcAcknowledge,
                      .psn = 200,
                      .aeth = {.syndrome = kSyndromeAckUnlimited, .msn = 0}};
    EXPECT_EQ(pair.deliver(pair.b, *pair.forge(pair.b, ack)), row.response);
  }
}

// The value that a query shows; retransmissions don't decrease it.
TEST(Qp, ReportsThePsnOfItsNextNewRequest) {
  QpPair pair({.psn_a = 0xFF'FFFE});
  EXPECT_EQ(pair.a.qp().send_psn(), 0xFF'FFFEU);
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 3'000)});
  (void)pair.transmit(pair.a);  // lost
  EXPECT_EQ(pair.a.qp().send_psn(), 1U);
  ASSERT_TRUE(pair.next_deadline());
  EXPECT_EQ(pair.a.qp().send_psn(), 1U);
  pair.exchange();
  EXPECT_EQ(pair.b.qp().expected_psn(), 1U);
  pair.a.post_send(rdma_wr(2, WrOpcode::kRdmaRead, pair.b, 0), std::array{pair.a.sge(0, 3'000)});
  pair.exchange();
  EXPECT_EQ(pair.a.qp().send_psn(), 4U) << "a READ takes a PSN for each packet of its answer";
  EXPECT_EQ(pair.b.qp().expected_psn(), 4U);
  pair.a.modify({.state = QpState::kReset}, kQpMaskState);
  EXPECT_EQ(pair.a.qp().send_psn(), 0U);
}

TEST(Qp, TakesPacketsFromItsPeerOnly) {
  QpPair pair;
  QpAttributes moved = pair.attributes(false);
  moved.path.destination_gid = parse_ip("10.0.0.9").value();
  pair.b.modify(moved, kQpMaskPath, pair.now);
  EXPECT_EQ(pair.deliver(pair.b, *pair.forge(pair.b, write_only(100))), Drop::kWrongSource);
  moved.path.destination_gid = parse_ip("10.0.0.1").value();
  moved.path.source_gid = parse_ip("10.0.0.9").value();
  pair.b.modify(moved, kQpMaskPath, pair.now);
  EXPECT_EQ(pair.deliver(pair.b, *pair.forge(pair.b, write_only(100))), Drop::kWrongSource);
}

// 10.9.3: the low 15 bits decide; this side is a full member.
TEST(Qp, ComparesPkeys) {
  QpPair pair;
  const struct {
    std::uint16_t pkey;
    Drop drop;
  } rows[] = {{0x7FFE, Drop::kBadPkey}, {0x8001, Drop::kBadPkey}, {0x7FFF, Drop::kNone}};
  for (const auto& row : rows) {
    Headers headers = write_only(100);
    headers.pkey = row.pkey;
    EXPECT_EQ(pair.deliver(pair.b, *pair.forge(pair.b, headers)), row.drop);
  }
}

TEST(Qp, GoesToErrorOnceAndFlushesBothQueues) {
  QpPair pair;
  pair.a.post_recv(1, std::array{pair.a.sge(0, 64)});
  pair.a.post_send(rdma_wr(2, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 8)});
  pair.a.to_error(pair.now);
  pair.a.to_error(pair.now);
  const auto received = pair.a.poll_recv();
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->status, WcStatus::kWrFlushErr);
  const auto sent = pair.a.poll_send();
  ASSERT_TRUE(sent.has_value());
  EXPECT_EQ(sent->status, WcStatus::kWrFlushErr);
  EXPECT_FALSE(pair.a.poll_recv().has_value());
  EXPECT_FALSE(pair.a.poll_send().has_value());
}

// A program may have posted a lot, and a hostile one goes on posting: the work per turn is bounded.
TEST(Qp, FlushesALongQueueOverSeveralTurns) {
  constexpr std::uint32_t kPosted = 3 * Qp::kFlushMax - 5;
  QpRig rig({.receive_entries = 256, .send_entries = 256});
  for (std::uint32_t i = 0; i < kPosted; ++i) {
    rig.sends.post_send(send_wr(i, WrOpcode::kSend), {});
    rig.receives.post_receive(i, {});
  }
  rig.to_state(QpState::kErr);
  std::uint64_t id = 0;
  for (const std::uint32_t expected : {Qp::kFlushMax, Qp::kFlushMax, kPosted - 2 * Qp::kFlushMax}) {
    const auto sent = rig.send_completions.poll_all();
    const auto received = rig.receive_completions.poll_all();
    ASSERT_EQ(sent.size(), expected);
    ASSERT_EQ(received.size(), expected);
    for (std::uint32_t i = 0; i < expected; ++i, ++id) {
      EXPECT_EQ(sent[i].wr_id, id);
      EXPECT_EQ(received[i].wr_id, id);
      EXPECT_EQ(sent[i].status, WcStatus::kWrFlushErr);
      EXPECT_EQ(received[i].status, WcStatus::kWrFlushErr);
    }
    if (id < kPosted) {
      EXPECT_TRUE(rig.events.reports.empty()) << "reported once, when all of it is flushed";
      ASSERT_GT(rig.qp().deadline(), rig.now) << "not in the same turn";
      rig.now = rig.qp().deadline();
      Turn turn = rig.turn();
      rig.qp().on_deadline(turn);
    }
  }
  EXPECT_EQ(rig.qp().deadline(), kNever);
  ASSERT_EQ(rig.events.reports.size(), 2U);
  EXPECT_EQ(rig.events.reports[0].count, kPosted);
  EXPECT_EQ(rig.events.reports[1].count, kPosted);
}

TEST(Qp, ResetEndsAFlush) {
  QpRig rig({.receive_entries = 256});
  for (std::uint32_t i = 0; i <= Qp::kFlushMax; ++i) {
    rig.receives.post_receive(i, {});
  }
  rig.to_state(QpState::kErr);
  EXPECT_NE(rig.qp().deadline(), kNever);
  rig.to_state(QpState::kReset);
  EXPECT_EQ(rig.qp().deadline(), kNever);
}

TEST(Qp, StartsAfreshAfterReset) {
  QpPair pair;
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 3'000)});
  (void)pair.transmit(pair.a, 2);
  for (Endpoint* end : {&pair.a, &pair.b}) {
    end->modify({.state = QpState::kReset}, kQpMaskState, pair.now);
    pair.connect(*end);
  }
  pair.a.post_send(rdma_wr(2, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 3'000)});
  pair.exchange();
  const auto cqe = pair.a.poll_send();
  ASSERT_TRUE(cqe.has_value());
  EXPECT_EQ(cqe->wr_id, 2U);
  EXPECT_EQ(cqe->status, WcStatus::kSuccess);
}

// Sends at most one frame more than the caller allows.
TEST(Qp, TransmitKeepsToItsByteLimit) {
  QpPair pair;
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 50'000)});
  const auto frames = pair.transmit(pair.a, 3);
  EXPECT_EQ(frames.size(), 3U);
  TxBatch tx;
  HeapFrame more[8];
  for (HeapFrame& frame : more) {
    tx.put_back(&frame.frame);
  }
  Turn turn = pair.a.turn(pair.now, tx);
  const std::uint32_t bytes = pair.a.qp().transmit(turn, 2'000);
  EXPECT_EQ(tx.ready_count(), 2U);
  EXPECT_GE(bytes, 2'000U);
  EXPECT_LT(bytes, 2'000U + 1'200U);
}

}  // namespace
}  // namespace uroce::test
