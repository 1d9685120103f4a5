// Selective repeat: packets after a hole are buffered, and only the hole is retransmitted. If the
// peer buffers nothing, everything from the hole on is, as in go-back-N.

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "dataplane/qp/recovery/out_of_order.h"
#include "dataplane/qp/recovery/sack_scoreboard.h"
#include "tests/unit/qp/qp_pair.h"

namespace uroce::test {
namespace {

using abi::WcStatus;
using abi::WrOpcode;

constexpr std::size_t kLong = 20'000;  // bytes: 20 packets

class RecoveryTest : public ::testing::Test {
 protected:
  void buffering(bool a, bool b) {
    pair.a.may_buffer = a;
    pair.b.may_buffer = b;
  }

  void post(WrOpcode opcode) {
    fill_pattern(pair.a.memory, 1);
    fill_pattern(pair.b.memory, 2);
    pair.a.post_send(rdma_wr(1, opcode, pair.b, 0), std::array{pair.a.sge(0, kLong)});
  }

  // Loses the first copy of each packet in `unlucky`; counts the packets sent.
  void run(const std::vector<std::uint32_t>& unlucky, bool to_b) {
    std::vector<std::uint32_t> left = unlucky;
    pair.run([&, to_b](const Packet& packet, bool from_a) {
      sent += from_a == to_b ? 1 : 0;
      const auto found = std::find(left.begin(), left.end(), packet.psn);
      if (from_a != to_b || found == left.end()) {
        return false;
      }
      left.erase(found);
      return true;
    });
  }

  void expect_done() {
    const auto cqe = pair.a.poll_send();
    ASSERT_TRUE(cqe.has_value());
    EXPECT_EQ(cqe->status, WcStatus::kSuccess);
    EXPECT_TRUE(
        std::equal(pair.a.memory.begin(), pair.a.memory.begin() + kLong, pair.b.memory.begin()));
    EXPECT_EQ(pair.a.qp().counters().local_ack_timeout_err, 0U);
    EXPECT_EQ(pair.a.qp().out_of_order(false), 0U);
    EXPECT_EQ(pair.b.qp().out_of_order(true), 0U);
  }

  QpPair pair;
  int sent = 0;
};

TEST_F(RecoveryTest, OnlyTheMissingPacketOfAWriteIsSentAgain) {
  buffering(false, true);
  post(WrOpcode::kRdmaWrite);
  run({105}, true);
  expect_done();
  EXPECT_EQ(sent, 20 + 1);
  EXPECT_EQ(pair.b.qp().counters().out_of_order_frames, 14U);
  EXPECT_EQ(pair.a.qp().counters().resends_single, 1U);
  EXPECT_EQ(pair.b.qp().counters().naks_sent, 1U);
}

// One hole after the other: each NAK names the next one. Two adjacent holes aren't mistaken for a
// peer that buffers nothing.
TEST_F(RecoveryTest, SeveralHolesAreClosedOneByOne) {
  buffering(false, true);
  post(WrOpcode::kRdmaWrite);
  run({102, 105, 106, 110}, true);
  expect_done();
  EXPECT_EQ(sent, 20 + 4);
}

// Nothing is executed before the hole is closed: memory beyond it is unchanged.
TEST_F(RecoveryTest, OutOfOrderPacketsAreNotExecutedEarly) {
  buffering(false, true);
  post(WrOpcode::kRdmaWrite);
  auto frames = pair.transmit(pair.a);
  ASSERT_EQ(frames.size(), 20U);
  const std::vector<std::byte> before(pair.b.memory.begin(), pair.b.memory.begin() + kLong);
  std::unique_ptr<HeapFrame> missing = std::move(frames[0]);
  for (std::size_t i = 1; i < frames.size(); ++i) {
    pair.give(pair.b, std::move(frames[i]));
  }
  EXPECT_TRUE(std::equal(before.begin(), before.end(), pair.b.memory.begin()));
  pair.give(pair.b, std::move(missing));
  EXPECT_TRUE(
      std::equal(pair.a.memory.begin(), pair.a.memory.begin() + kLong, pair.b.memory.begin()));
  auto answers = pair.transmit(pair.b);
  ASSERT_EQ(answers.size(), 1U);  // no NAK is sent any more
  ASSERT_EQ(parse(answers[0]->frame), Drop::kNone);
  EXPECT_EQ(answers[0]->frame.packet.psn, 119U);
}

// The peer discards out-of-order packets: its acknowledgement of the missing packet alone shows it.
TEST_F(RecoveryTest, GoesBackWithAPeerThatBuffersNothing) {
  post(WrOpcode::kRdmaWrite);
  run({105}, true);
  expect_done();
  EXPECT_EQ(pair.a.qp().counters().resends_single, 1U);
  EXPECT_EQ(pair.a.qp().counters().resends_gone_back, 1U);
  EXPECT_EQ(sent, 20 + 1 + 14);
}

TEST_F(RecoveryTest, RemembersThatThePeerBuffersNothing) {
  post(WrOpcode::kRdmaWrite);
  run({105}, true);
  expect_done();
  sent = 0;
  post(WrOpcode::kRdmaWrite);
  run({125}, true);
  expect_done();
  EXPECT_EQ(sent, 20 + 15);
  EXPECT_EQ(pair.a.qp().counters().resends_single, 1U);
}

TEST_F(RecoveryTest, GoBackNBuffersNothingAndGoesBackAtOnce) {
  pair.a.recovery = pair.b.recovery = Recovery::kGoBackN;
  post(WrOpcode::kRdmaWrite);
  run({105}, true);
  expect_done();
  EXPECT_EQ(sent, 20 + 15);
  EXPECT_EQ(pair.a.qp().counters().resends_single, 0U);
  EXPECT_EQ(pair.a.qp().counters().tail_probes, 0U);
}

// READ responses after a hole are buffered, and the new READ request covers the hole only.
TEST_F(RecoveryTest, OnlyTheMissingResponsesOfAReadAreRequestedAgain) {
  buffering(true, false);
  post(WrOpcode::kRdmaRead);
  run({105, 106}, false);
  expect_done();
  EXPECT_EQ(sent, 20 + 2);
  EXPECT_EQ(pair.a.qp().counters().out_of_order_frames, 13U);
}

// One hole of each READ at a time, since a peer may discard the state before the part that was
// requested last.
TEST_F(RecoveryTest, HolesOfAReadAreClosedOneByOne) {
  buffering(true, false);
  post(WrOpcode::kRdmaRead);
  run({102, 105, 110}, false);
  expect_done();
  EXPECT_EQ(sent, 20 + 3);
}

TEST_F(RecoveryTest, HolesOfDifferentReadsAreClosedTogether) {
  buffering(true, false);
  post(WrOpcode::kRdmaRead);
  pair.a.post_send(rdma_wr(2, WrOpcode::kRdmaRead, pair.b, 0),
                   std::array{pair.a.sge(500'000, kLong)});
  run({105, 125}, false);
  expect_done();
  EXPECT_TRUE(pair.a.poll_send().has_value());
  EXPECT_EQ(sent, 40 + 2);
}

// The response to a part that ends inside the READ ends with LAST: that isn't a response of the
// wrong length.
TEST_F(RecoveryTest, AResponseToAPartMayComeLate) {
  buffering(true, false);
  post(WrOpcode::kRdmaRead);
  auto request = pair.transmit(pair.a);
  (void)pair.deliver(pair.b, *request[0]);
  auto answers = pair.transmit(pair.b);
  ASSERT_EQ(answers.size(), 20U);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (i != 5) {
      pair.give(pair.a, std::move(answers[i]));
    }
  }
  auto hole = pair.transmit(pair.a);
  ASSERT_EQ(hole.size(), 1U);
  ASSERT_EQ(parse(hole[0]->frame), Drop::kNone);
  EXPECT_EQ(hole[0]->frame.packet.psn, 105U);
  EXPECT_EQ(hole[0]->frame.packet.reth().length, 1'024U);
  (void)pair.deliver(pair.b, *hole[0]);
  auto rest = pair.transmit(pair.b);
  ASSERT_EQ(rest.size(), 1U);
  HeapFrame copy(*rest[0]);
  pair.give(pair.a, std::move(rest[0]));
  EXPECT_EQ(pair.deliver(pair.a, copy), Drop::kStaleResponse);
  expect_done();
}

// A queue pair in error accepts no packets any more, so none may be buffered for it.
TEST_F(RecoveryTest, NothingIsBufferedForAQueuePairInError) {
  buffering(true, true);
  post(WrOpcode::kRdmaWrite);
  auto frames = pair.transmit(pair.a);
  pair.give(pair.b, std::move(frames[3]));
  EXPECT_EQ(pair.b.qp().out_of_order(true), 1U);
  pair.b.to_error();
  EXPECT_EQ(pair.b.qp().out_of_order(true), 0U);
}

// A packet isn't buffered twice, nor one that is too far ahead.
TEST(OutOfOrderPackets, IsBounded) {
  OutOfOrderPackets packets;
  ASSERT_TRUE(packets.may_add(0xFF'FFF0, 0x00'0001));
  packets.add(0x00'0001);
  EXPECT_FALSE(packets.may_add(0xFF'FFF0, 0x00'0001));
  EXPECT_FALSE(packets.may_add(0xFF'FFF0, psn_add(0xFF'FFF0, OutOfOrderPackets::kSpan)));
  packets.passed(0xFF'FFF0, 0x00'0002);
  EXPECT_EQ(packets.count(), 0U);
  for (std::uint32_t psn = 1; psn <= OutOfOrderPackets::kMax; ++psn) {
    ASSERT_TRUE(packets.may_add(0, psn));
    packets.add(psn);
  }
  EXPECT_FALSE(packets.may_add(0, OutOfOrderPackets::kMax + 1));
}

// A SACK can name more packets than are counted.
TEST(SackScoreboard, NotesNoMoreThanThereIsRoomFor) {
  SackScoreboard scoreboard;
  for (std::uint32_t psn = 1; psn <= OutOfOrderPackets::kMax + 1; ++psn) {
    scoreboard.note(0, psn);
    scoreboard.note(0, psn);
  }
  EXPECT_EQ(scoreboard.count(), OutOfOrderPackets::kMax);
  scoreboard.passed(0, OutOfOrderPackets::kMax + 2);
  EXPECT_EQ(scoreboard.count(), 0U);
}

}  // namespace
}  // namespace uroce::test
