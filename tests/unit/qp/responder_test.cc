// What the conformance corpus can't express about the responder: long responses in portions, full
// ports, memory that is huge or lost, details of completions, rings that a program has corrupted.

#include "dataplane/qp/responder/responder.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "dataplane/qp/failure.h"
#include "tests/qp/rig.h"

namespace uroce::test {
namespace {

constexpr std::uint64_t kResponderIova = 0x10000;
constexpr std::uint32_t kAllRights =
    kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic;

Headers request(Opcode opcode, std::uint32_t psn, const Reth& reth = {}) {
  Headers headers;
  headers.opcode = opcode;
  headers.psn = psn;
  headers.ack_request = true;
  headers.reth = reth;
  return headers;
}

Headers read_request(std::uint32_t psn, std::uint32_t rkey, std::uint32_t length) {
  return request(Opcode::kRcReadRequest, psn,
                 {.address = kResponderIova, .rkey = rkey, .length = length});
}

TEST(Responder, SendsALongAnswerInPortions) {
  QpRig rig;
  Bytes memory = pattern(3, 100'000);
  const std::uint32_t key = rig.add_region(memory, kResponderIova, kAllRights);
  ASSERT_EQ(rig.receive(read_request(100, key, 100'000)), Step::kDone);
  const std::uint32_t bytes = rig.transmit_once(5'000);
  EXPECT_GE(bytes, 5'000U);
  EXPECT_LT(bytes, 5'000U + 1'100U);
  EXPECT_TRUE(rig.qp().has_work());
}

TEST(Responder, AnswersByteExactInPortionsOfAnySize) {
  for (const std::uint32_t portion : {1U, 1'500U, 100'000U}) {
    QpRig rig;
    Bytes memory = pattern(3, 100'000);
    const std::uint32_t key = rig.add_region(memory, kResponderIova, kAllRights);
    ASSERT_EQ(rig.receive(read_request(100, key, 100'000)), Step::kDone);
    Bytes answer;
    for (const SentPacket& sent : rig.transmit(portion)) {
      answer.insert(answer.end(), sent.payload().begin(), sent.payload().end());
    }
    EXPECT_EQ(answer, memory);
  }
}

// 2^31 bytes at the smallest MTU: 2^23 PSNs, all that may be outstanding.
TEST(Responder, TakesTheLongestRead) {
  constexpr std::size_t kLength = std::size_t{1} << 31U;
  void* mapped =
      mmap(nullptr, kLength, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  QpRig::Options options;
  options.attributes.path_mtu = 256;
  QpRig rig(options);
  const std::uint32_t key =
      rig.add_region({static_cast<std::byte*>(mapped), kLength}, kResponderIova, kAccessRemoteRead);
  ASSERT_EQ(rig.receive(read_request(100, key, 1U << 31U)), Step::kDone);
  const auto sent = rig.transmit(10'000, 500);
  ASSERT_GE(sent.size(), 500U);
  EXPECT_EQ(sent[0].packet().opcode, Opcode::kRcReadResponseFirst);
  EXPECT_EQ(sent[499].packet().opcode, Opcode::kRcReadResponseMiddle);
  EXPECT_EQ(sent[499].packet().psn, 599U);
  // The end of it, requested by a retry of the last packet.
  Headers retry = read_request(psn_add(100, (1U << 23U) - 1), key, 256);
  retry.reth.address = kResponderIova + kLength - 256;
  ASSERT_EQ(rig.receive(retry), Step::kDone);
  EXPECT_EQ(rig.last_drop(), Drop::kNone);
  munmap(mapped, kLength);
}

TEST(Responder, WaitsForRoomToSend) {
  QpRig rig;
  Bytes memory = pattern(3, 64);
  const std::uint32_t key = rig.add_region(memory, kResponderIova, kAllRights);
  ASSERT_EQ(rig.receive(request(Opcode::kRcWriteOnly, 100, {kResponderIova, key, 0})), Step::kDone);
  TxBatch none;
  Turn turn{
      .now = 0, .tx = none, .keys = rig.keys, .events = rig.events, .dirty_queues = rig.dirty};
  EXPECT_EQ(rig.qp().transmit(turn, UINT32_MAX), 0U);
  EXPECT_TRUE(rig.qp().has_work());
  EXPECT_EQ(rig.transmit().size(), 1U);
  EXPECT_FALSE(rig.qp().has_work());
}

TEST(Responder, CompletionHasAllFieldsOfVerbs) {
  QpRig rig;
  Bytes memory = pattern(0, 64);
  const std::uint32_t key = rig.add_region(memory, kResponderIova, kAllRights);
  const abi::Sge sge{.address = kResponderIova, .length = 64, .lkey = key};
  rig.receives.post_receive(0x1122334455667788, {&sge, 1});
  rig.now = 424'242;
  Headers headers = request(Opcode::kRcSendOnlyImm, 100);
  headers.immediate = 0x01020304;
  headers.solicited = true;
  rig.receive_completions.control.arm.store(static_cast<std::uint32_t>(abi::Arm::kSolicited));
  ASSERT_EQ(rig.receive(headers, pattern(5, 10)), Step::kDone);
  const auto cqe = rig.receive_completions.poll();
  ASSERT_TRUE(cqe);
  EXPECT_EQ(cqe->wr_id, 0x1122334455667788U);
  EXPECT_EQ(cqe->timestamp_ns, 424'242U);
  EXPECT_EQ(cqe->qp_num, QpRig::kQpn);
  EXPECT_EQ(cqe->src_qp, QpRig::kPeerQpn);
  EXPECT_EQ(cqe->byte_len, 10U);
  EXPECT_EQ(cqe->immediate, 0x01020304U);
  EXPECT_EQ(cqe->wc_flags, abi::kWcWithImm);
  EXPECT_EQ(rig.dirty, std::vector<CompletionQueue*>{&rig.receive_cq});
}

TEST(Responder, FailureIsReported) {
  QpRig rig;
  Bytes memory = pattern(0, 64);
  const std::uint32_t key = rig.add_region(memory, kResponderIova, kAllRights);
  const abi::Sge sge{.address = kResponderIova, .length = 4, .lkey = key};
  rig.receives.post_receive(1, {&sge, 1});
  rig.receives.post_receive(2, {&sge, 1});
  ASSERT_EQ(rig.receive(request(Opcode::kRcSendOnly, 100), pattern(5, 10)), Step::kDone);
  const auto first = rig.receive_completions.poll();
  const auto second = rig.receive_completions.poll();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->vendor_err, static_cast<std::uint32_t>(Failure::kReceiveTooShort));
  EXPECT_EQ(second->vendor_err, static_cast<std::uint32_t>(Failure::kFlushed));
}

TEST(Responder, ReceivesPostedInErrorAreFlushedAtTheDoorbell) {
  QpRig rig;
  rig.to_state(QpState::kErr);
  rig.receives.post_receive(7, {});
  rig.doorbell();
  const auto cqe = rig.receive_completions.poll();
  ASSERT_TRUE(cqe);
  EXPECT_EQ(cqe->status, abi::WcStatus::kWrFlushErr);
}

TEST(Responder, CorruptedReceiveRingEndsInAnError) {
  QpRig rig;
  rig.receives.control.producer.value.store(1'000'000);
  ASSERT_EQ(rig.receive(request(Opcode::kRcSendOnly, 100), pattern(5, 10)), Step::kDone);
  EXPECT_EQ(rig.qp().state(), QpState::kErr);
  const auto sent = rig.transmit();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].packet().aeth().syndrome,
            kSyndromeNak | static_cast<unsigned>(Nak::kRemoteOperational));
  EXPECT_EQ(rig.events.entries,
            (std::vector<EventLog::Entry>{{AsyncEvent::kQpFatal, QpRig::kQpn}}));
}

TEST(Responder, ResetForgetsEverything) {
  QpRig rig;
  Bytes memory = pattern(0, 64);
  const std::uint32_t key = rig.add_region(memory, kResponderIova, kAllRights);
  ASSERT_EQ(rig.receive(read_request(100, key, 64)), Step::kDone);
  rig.to_state(QpState::kReset);
  EXPECT_FALSE(rig.qp().has_work());
  for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
    rig.to_state(state);
  }
  ASSERT_EQ(rig.receive(read_request(100, key, 64)), Step::kDone);
  const auto sent = rig.transmit();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].packet().aeth().msn, 1U);
}

// The SEND is acknowledged although its key can't be invalidated, so what came before it must be
// answered, too.
TEST(Responder, AnswersWhatCameBeforeAFailedInvalidation) {
  QpRig rig;
  Bytes memory = pattern(3, 64);
  const std::uint32_t key = rig.add_region(memory, kResponderIova, kAllRights);
  rig.receives.post_receive(1, {});
  ASSERT_EQ(rig.receive(read_request(100, key, 64)), Step::kDone);
  Headers send = request(Opcode::kRcSendOnlyInv, 101);
  send.invalidate_rkey = key ^ 1U;
  ASSERT_EQ(rig.receive(send), Step::kDone);
  EXPECT_EQ(rig.qp().state(), QpState::kErr);
  const auto sent = rig.transmit();
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0].packet().opcode, Opcode::kRcReadResponseOnly);
  EXPECT_TRUE(std::ranges::equal(sent[0].payload(), memory));
  EXPECT_EQ(sent[1].packet().opcode, Opcode::kRcAcknowledge);
  EXPECT_EQ(sent[1].packet().psn, 101U);
  EXPECT_FALSE(rig.qp().has_work());
}

TEST(Responder, MsnWrapsIn24Bits) {
  QpRig rig;
  Bytes memory = pattern(0, 64);
  const std::uint32_t key = rig.add_region(memory, kResponderIova, kAllRights);
  Headers write = request(Opcode::kRcWriteOnly, 100, {kResponderIova, key, 0});
  write.ack_request = false;
  write.dest_qpn = QpRig::kQpn;
  Bytes buffer(256);
  Frame frame;
  frame.data = buffer.data();
  frame.capacity = static_cast<std::uint32_t>(buffer.size());
  FrameWriter writer(frame, FrameTemplate(peer_path()), write, 0, 1);
  writer.finish();
  ASSERT_EQ(parse(frame), Drop::kNone);
  for (std::uint32_t i = 0; i <= kPsnMask; ++i) {
    frame.packet.psn = psn_add(100, i);
    ASSERT_EQ(rig.receive_parsed(frame), Step::kDone);
  }
  ASSERT_EQ(rig.receive(request(Opcode::kRcWriteOnly, 100, {kResponderIova, key, 0})), Step::kDone);
  const auto sent = rig.transmit();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].packet().aeth().msn, 1U);
}

}  // namespace
}  // namespace uroce::test
