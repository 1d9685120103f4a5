// Sending on transports without acknowledgements: UC and UD. Their receiving side is in
// tests/conformance.

#include <gtest/gtest.h>

#include "tests/qp/rig.h"
#include "tests/unit/qp/qp_pair.h"

namespace uroce::test {
namespace {

using abi::WcStatus;
using abi::WrOpcode;

constexpr std::uint64_t kUnreliableIova = 0x10'0000;
constexpr std::uint32_t kQkey = 0x1111'1111;  // the rig's

class Unreliable : public testing::Test {
 protected:
  void given(QpType type) {
    rig_ = std::make_unique<QpRig>(
        QpRig::Options{.type = type, .addresses = type == QpType::kUd ? &addresses_ : nullptr});
    key_ = rig_->add_region(memory_, kUnreliableIova, kAccessLocalWrite);
  }
  // A UC queue pair whose work request 1 has failed, so that its send queue has stopped (SQE).
  void given_stopped() {
    given(QpType::kUc);
    rig_->sends.post_send(send_wr(1, WrOpcode::kSend),
                          std::array{abi::Sge{kUnreliableIova, 8, 0xBAD}});
    rig_->doorbell();
    EXPECT_TRUE(rig_->transmit().empty());
    expect(1, WcStatus::kLocProtErr, Failure::kSendKey);
    EXPECT_EQ(rig_->qp().state(), QpState::kSqe);
  }
  void given_address(std::uint32_t handle, const char* destination, PdId pd = QpRig::kPd) {
    Path path = local_path();
    path.destination_gid = *parse_ip(destination);
    (void)addresses_.put(handle,
                         std::make_unique<AddressVector>(AddressVector{pd, FrameTemplate(path)}));
  }

  abi::Sge sge(std::uint32_t length) const { return {kUnreliableIova, length, key_}; }
  void post(const abi::SendWr& wr, std::uint32_t length) {
    rig_->sends.post_send(wr, std::array{sge(length)});
    rig_->doorbell();
  }
  static abi::SendWr datagram(std::uint64_t id, std::uint32_t ah, std::uint32_t qpn = 0x99,
                              std::uint32_t qkey = 0x2222) {
    abi::SendWr wr = send_wr(id, WrOpcode::kSend);
    wr.ud = {.ah = ah, .remote_qpn = qpn, .remote_qkey = qkey, .reserved = 0};
    return wr;
  }

  void expect(std::uint64_t id, WcStatus status, Failure failure = Failure::kNone) {
    const auto cqe = rig_->send_completions.poll();
    ASSERT_TRUE(cqe) << "no completion of " << id;
    EXPECT_EQ(cqe->wr_id, id);
    EXPECT_EQ(cqe->status, status);
    EXPECT_EQ(cqe->vendor_err, static_cast<std::uint32_t>(failure));
  }

  AddressTable addresses_;
  Bytes memory_ = pattern(3, 8'192);
  std::unique_ptr<QpRig> rig_;
  std::uint32_t key_ = 0;
};

TEST_F(Unreliable, AMessageCompletesWhenSent) {
  given(QpType::kUc);
  post(send_wr(1, WrOpcode::kSendWithImm), 2'500);
  const auto sent = rig_->transmit();
  ASSERT_EQ(sent.size(), 3U);
  EXPECT_EQ(sent[0].packet().opcode, Opcode::kUcSendFirst);
  EXPECT_EQ(sent[1].packet().opcode, Opcode::kUcSendMiddle);
  EXPECT_EQ(sent[2].packet().opcode, Opcode::kUcSendLastImm);
  EXPECT_EQ(sent[2].packet().psn, 5'002U);
  for (const SentPacket& packet : sent) {
    EXPECT_FALSE(packet.packet().ack_request);
  }
  expect(1, WcStatus::kSuccess);
  EXPECT_EQ(rig_->qp().deadline(), kNever);
  EXPECT_EQ(rig_->sends.waiting(), 0U);
}

TEST_F(Unreliable, HalfAMessageDoesNotComplete) {
  given(QpType::kUc);
  post(send_wr(1, WrOpcode::kSend), 2'500);
  ASSERT_EQ(rig_->transmit(1, 2).size(), 2U);
  EXPECT_FALSE(rig_->send_completions.poll());
  ASSERT_EQ(rig_->transmit().size(), 1U);
  expect(1, WcStatus::kSuccess);
}

TEST_F(Unreliable, WritesOfUc) {
  given(QpType::kUc);
  abi::SendWr wr = send_wr(1, WrOpcode::kRdmaWriteWithImm);
  wr.remote_address = 0x77;
  wr.rkey = 9;
  post(wr, 10);
  const auto sent = rig_->transmit();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].packet().opcode, Opcode::kUcWriteOnlyImm);
  EXPECT_EQ(sent[0].packet().reth().address, 0x77U);
  EXPECT_EQ(sent[0].packet().reth().length, 10U);
}

TEST_F(Unreliable, UnsignaledWorkFreesItsSlotsToo) {
  given(QpType::kUc);
  for (int i = 0; i < 10; ++i) {
    post(send_wr(1, WrOpcode::kSend, 0), 8);
  }
  EXPECT_EQ(rig_->transmit().size(), 10U);
  EXPECT_EQ(rig_->sends.waiting(), 0U);
  EXPECT_FALSE(rig_->send_completions.poll());
}

TEST_F(Unreliable, OperationsOfReliableConnectionsAreRefused) {
  for (const WrOpcode opcode :
       {WrOpcode::kRdmaRead, WrOpcode::kAtomicFetchAndAdd, WrOpcode::kSendWithInv}) {
    given(QpType::kUc);
    post(send_wr(1, opcode), 8);
    EXPECT_TRUE(rig_->transmit().empty());
    expect(1, WcStatus::kLocQpOpErr, Failure::kSendOpcode);
  }
  given(QpType::kUd);
  post(send_wr(1, WrOpcode::kRdmaWrite), 8);
  EXPECT_TRUE(rig_->transmit().empty());
  expect(1, WcStatus::kLocQpOpErr, Failure::kSendOpcode);
}

// IBTA vol. 1, 10.3.1.1.7.
TEST_F(Unreliable, AFailedRequestStopsTheSendQueueOnly) {
  given(QpType::kUc);
  rig_->sends.post_send(send_wr(1, WrOpcode::kSend),
                        std::array{abi::Sge{kUnreliableIova, 8, 0xBAD}});
  rig_->sends.post_send(send_wr(2, WrOpcode::kSend), std::array{sge(8)});
  rig_->doorbell();
  EXPECT_TRUE(rig_->transmit().empty());
  expect(1, WcStatus::kLocProtErr, Failure::kSendKey);
  expect(2, WcStatus::kWrFlushErr, Failure::kFlushed);
  EXPECT_EQ(rig_->qp().state(), QpState::kSqe);

  post(send_wr(3, WrOpcode::kSend), 8);
  expect(3, WcStatus::kWrFlushErr, Failure::kFlushed);
  rig_->receives.post_receive(7, std::array{sge(64)});
  EXPECT_EQ(rig_->receive({.opcode = Opcode::kUcSendOnly, .psn = 100}, pattern(1, 8)), Step::kDone);
  EXPECT_TRUE(rig_->receive_completions.poll());

  rig_->to_state(QpState::kRts);
  post(send_wr(4, WrOpcode::kSend), 8);
  EXPECT_EQ(rig_->transmit().size(), 1U);
  expect(4, WcStatus::kSuccess);
}

// However much was posted after the one that failed, none of it is sent after SQE.
TEST_F(Unreliable, NothingToBeFlushedIsSentOnceBackInRts) {
  constexpr std::uint64_t kPosted = 2 * Qp::kFlushMax;
  rig_ = std::make_unique<QpRig>(QpRig::Options{.type = QpType::kUc, .send_entries = 256});
  key_ = rig_->add_region(memory_, kUnreliableIova, kAccessLocalWrite);
  rig_->sends.post_send(send_wr(0, WrOpcode::kSend),
                        std::array{abi::Sge{kUnreliableIova, 8, 0xBAD}});
  for (std::uint64_t id = 1; id <= kPosted; ++id) {
    rig_->sends.post_send(send_wr(id, WrOpcode::kSend), std::array{sge(8)});
  }
  rig_->doorbell();
  EXPECT_TRUE(rig_->transmit().empty());
  EXPECT_EQ(rig_->qp().state(), QpState::kSqe);
  rig_->to_state(QpState::kRts);
  expect(0, WcStatus::kLocProtErr, Failure::kSendKey);
  for (std::uint64_t id = 1; id <= kPosted; ++id) {
    expect(id, WcStatus::kWrFlushErr, Failure::kFlushed);
  }
  EXPECT_TRUE(rig_->transmit().empty());
  EXPECT_EQ(rig_->qp().deadline(), kNever);
}

// The program posted it while the send queue was stopped, and the worker hasn't seen the doorbell.
TEST_F(Unreliable, WhatWasPostedInSqeIsFlushedThoughItsDoorbellComesLater) {
  given_stopped();
  rig_->sends.post_send(send_wr(2, WrOpcode::kSend), std::array{sge(8)});
  rig_->to_state(QpState::kRts);
  expect(2, WcStatus::kWrFlushErr, Failure::kFlushed);
  rig_->doorbell();
  EXPECT_TRUE(rig_->transmit().empty());
  post(send_wr(3, WrOpcode::kSend), 8);
  EXPECT_EQ(rig_->transmit().size(), 1U);
  expect(3, WcStatus::kSuccess);
}

TEST_F(Unreliable, AWholeRingThatIsFlushedOnTheWayToRtsIsReported) {
  given_stopped();
  constexpr std::uint32_t kEntries = 64;  // QpRig::Options
  for (std::uint32_t i = 0; i < kEntries; ++i) {
    rig_->sends.post_send(send_wr(2, WrOpcode::kSend), std::array{sge(8)});
  }
  rig_->to_state(QpState::kRts);
  ASSERT_FALSE(rig_->events.reports.empty());
  EXPECT_EQ(rig_->events.reports.back().failure, Failure::kFlushed);
  EXPECT_EQ(rig_->events.reports.back().count, kEntries);
}

TEST_F(Unreliable, DatagramsGoWhereTheirHandlesSay) {
  given(QpType::kUd);
  given_address(3, "10.77.0.30");
  given_address(600, "10.77.0.60");
  post(datagram(1, 3), 20);
  post(datagram(2, 600, 0x123), 1'024);
  const auto sent = rig_->transmit();
  ASSERT_EQ(sent.size(), 2U);
  const Packet& first = sent[0].packet();
  EXPECT_EQ(first.opcode, Opcode::kUdSendOnly);
  EXPECT_EQ(first.destination_gid(), *parse_ip("10.77.0.30"));
  EXPECT_EQ(first.dest_qpn, 0x99U);
  EXPECT_EQ(first.deth().qkey, 0x2222U);
  EXPECT_EQ(first.deth().source_qpn, QpRig::kQpn);
  EXPECT_EQ(sent[1].packet().destination_gid(), *parse_ip("10.77.0.60"));
  EXPECT_EQ(sent[1].packet().psn, psn_add(first.psn, 1));
  expect(1, WcStatus::kSuccess);
  expect(2, WcStatus::kSuccess);
}

// IBTA vol. 1, 10.2.4.1.
TEST_F(Unreliable, AQkeyWithTheHighBitMeansTheQueuePairsOwn) {
  given(QpType::kUd);
  given_address(0, "10.77.0.30");
  post(datagram(1, 0, 0x99, 0x8001'0000), 8);
  const auto sent = rig_->transmit();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].packet().deth().qkey, kQkey);
}

TEST_F(Unreliable, AForeignAddressHandleFailsTheRequest) {
  given_address(5, "10.77.0.30", QpRig::kPd + 1);
  for (const std::uint32_t handle : {4U, 5U, 511U, 524'288U, 0xFFFF'FFFFU}) {
    given(QpType::kUd);
    post(datagram(1, handle), 8);
    EXPECT_TRUE(rig_->transmit().empty());
    expect(1, WcStatus::kLocQpOpErr, Failure::kSendAddress);
    EXPECT_EQ(rig_->qp().state(), QpState::kSqe);
  }
}

TEST_F(Unreliable, ADatagramLongerThanThePathMtuIsRefused) {
  given(QpType::kUd);
  given_address(0, "10.77.0.30");
  post(datagram(1, 0), 1'025);
  EXPECT_TRUE(rig_->transmit().empty());
  expect(1, WcStatus::kLocLenErr, Failure::kDatagramTooLong);
}

TEST_F(Unreliable, InlineDatagrams) {
  given(QpType::kUd);
  given_address(0, "10.77.0.30");
  abi::SendWr wr = datagram(1, 0);
  wr.flags |= abi::kInline;
  wr.opcode = WrOpcode::kSendWithImm;
  wr.immediate = 0x4433'2211;
  rig_->sends.post_inline(wr, pattern(9, 33));
  rig_->doorbell();
  const auto sent = rig_->transmit();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].packet().opcode, Opcode::kUdSendOnlyImm);
  EXPECT_EQ(sent[0].packet().immediate(), 0x4433'2211U);
  const Bytes expected = pattern(9, 33);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), sent[0].payload().begin(),
                         sent[0].payload().end()));
}

// A fence waits for READs, and there are none.
TEST_F(Unreliable, AFenceHasNoEffect) {
  given(QpType::kUc);
  post(send_wr(1, WrOpcode::kSend, abi::kSignaled | abi::kFence), 8);
  EXPECT_EQ(rig_->transmit().size(), 1U);
}

TEST_F(Unreliable, DrainingEndsWithTheMessageUnderWay) {
  given(QpType::kUc);
  post(send_wr(1, WrOpcode::kSend), 2'500);
  post(send_wr(2, WrOpcode::kSend), 8);
  ASSERT_EQ(rig_->transmit(1, 1).size(), 1U);
  rig_->to_state(QpState::kSqd);
  EXPECT_EQ(rig_->transmit().size(), 2U);
  expect(1, WcStatus::kSuccess);
  EXPECT_FALSE(rig_->send_completions.poll());
  rig_->to_state(QpState::kRts);
  EXPECT_EQ(rig_->transmit().size(), 1U);
  expect(2, WcStatus::kSuccess);
}

TEST(AddressTable, ReplacesAndWithdraws) {
  AddressTable table;
  EXPECT_EQ(table.find(7), nullptr);
  EXPECT_EQ(table.put(7, std::make_unique<AddressVector>(AddressVector{1, {}})), nullptr);
  const AddressVector* first = table.find(7);
  ASSERT_NE(first, nullptr);
  const auto old = table.put(7, std::make_unique<AddressVector>(AddressVector{2, {}}));
  EXPECT_EQ(old.get(), first);
  EXPECT_EQ(table.find(7)->pd, 2U);
  EXPECT_NE(table.put(7, nullptr), nullptr);
  EXPECT_EQ(table.find(7), nullptr);
  EXPECT_EQ(table.find(AddressTable::kHandlesMax), nullptr);
}

}  // namespace
}  // namespace uroce::test
