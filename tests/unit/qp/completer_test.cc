// What the completer does with answers: acknowledgements, READ responses, NAKs, and stale ones of
// each kind. Named by clause where there is one (IBTA vol. 1).

#include <gtest/gtest.h>

#include <algorithm>

#include "dataplane/qp/failure.h"
#include "tests/unit/qp/qp_pair.h"

namespace uroce::test {
namespace {

using abi::WcStatus;
using abi::WrOpcode;

constexpr std::uint8_t kAck = kSyndromeAckUnlimited;

Headers acknowledge(std::uint32_t psn, std::uint8_t syndrome = kAck) {
  return {.opcode = Opcode::kRcAcknowledge, .psn = psn, .aeth = {.syndrome = syndrome, .msn = 0}};
}

// a has posted `count` single-packet WRITEs, PSNs 100 and on, and sent them, but none is delivered.
class Completer : public testing::Test {
 protected:
  void write(std::uint64_t count, std::size_t length = 8) {
    for (std::uint64_t i = 0; i < count; ++i) {
      pair.a.post_send(rdma_wr(next_id++, WrOpcode::kRdmaWrite, pair.b, 0),
                       std::array{pair.a.sge(0, length)});
    }
    (void)pair.transmit(pair.a);
  }
  void read(std::size_t length) {
    pair.a.post_send(rdma_wr(next_id++, WrOpcode::kRdmaRead, pair.b, 0),
                     std::array{pair.a.sge(0, length)});
    (void)pair.transmit(pair.a);
  }
  Drop answer(const Headers& headers, std::span<const std::byte> payload = {}) {
    return pair.deliver(pair.a, *pair.forge(pair.a, headers, payload));
  }
  void expect(std::uint64_t id, WcStatus status) {
    const auto cqe = pair.a.poll_send();
    ASSERT_TRUE(cqe.has_value()) << "no completion of " << id;
    EXPECT_EQ(cqe->wr_id, id);
    EXPECT_EQ(cqe->status, status);
  }
  void expect_nothing() { EXPECT_FALSE(pair.a.poll_send().has_value()); }
  // The PSNs that a sends now.
  std::vector<std::uint32_t> sends() {
    std::vector<std::uint32_t> psns;
    for (const auto& frame : pair.transmit(pair.a)) {
      EXPECT_EQ(parse(frame->frame), Drop::kNone);
      psns.push_back(frame->frame.packet.psn);
    }
    return psns;
  }
  using Psns = std::vector<std::uint32_t>;

  QpPair pair{{.retry_cnt = 2, .rnr_retry = 2}};
  std::uint64_t next_id = 0;
};

// 9.7.5.1.2: one acknowledgement covers all requests up to its PSN.
TEST_F(Completer, C9_7_5_1_2_AcknowledgementsAreCumulative) {
  write(4);
  EXPECT_EQ(answer(acknowledge(102)), Drop::kNone);
  expect(0, WcStatus::kSuccess);
  expect(1, WcStatus::kSuccess);
  expect(2, WcStatus::kSuccess);
  expect_nothing();
  EXPECT_EQ(pair.a.send_consumer(), 3U);
}

TEST_F(Completer, AMessageCompletesWithItsLastPacket) {
  write(1, 3'000);
  EXPECT_EQ(answer(acknowledge(101)), Drop::kNone);
  expect_nothing();
  EXPECT_EQ(answer(acknowledge(102)), Drop::kNone);
  expect(0, WcStatus::kSuccess);
}

// 9.9.3: an acknowledgement of nothing that is outstanding is dropped, whether its PSN is old or in
// the future.
TEST_F(Completer, C9_9_3_StaleAcknowledgementsAreDropped) {
  write(2);
  EXPECT_EQ(answer(acknowledge(99)), Drop::kStaleResponse);
  EXPECT_EQ(answer(acknowledge(102)), Drop::kStaleResponse);
  EXPECT_EQ(answer(acknowledge(100 - 5'000'000 + 0x100'0000)), Drop::kStaleResponse);
  EXPECT_EQ(answer(acknowledge(101)), Drop::kNone);
  EXPECT_EQ(answer(acknowledge(101)), Drop::kStaleResponse);
  EXPECT_EQ(answer(acknowledge(101, kSyndromeNak | 2)), Drop::kStaleResponse);
  EXPECT_EQ(pair.a.qp().state(), QpState::kRts);
}

TEST_F(Completer, ReservedSyndromesAreDropped) {
  write(1);
  for (const int kind : {0x40, 0x80, 0xA0, 0xC0, 0xE0}) {
    EXPECT_EQ(answer(acknowledge(100, static_cast<std::uint8_t>(kind))), Drop::kReservedSyndrome);
  }
  EXPECT_EQ(answer(acknowledge(100, kSyndromeNak | 9)), Drop::kReservedSyndrome);
  expect_nothing();
}

// C9-112: an acknowledgement beyond a READ that hasn't been answered is an implied NAK of the READ.
TEST_F(Completer, C9_112_AnAcknowledgementBeyondAReadRequestsItAgain) {
  write(1);
  read(2'000);  // PSNs 101, 102
  write(1);     // 103
  EXPECT_EQ(answer(acknowledge(103)), Drop::kNone);
  expect(0, WcStatus::kSuccess);
  expect_nothing();
  EXPECT_EQ(sends(), (Psns{101, 103}));
  EXPECT_EQ(answer(acknowledge(103)), Drop::kNone);  // a late duplicate doesn't trigger it again
  EXPECT_EQ(sends(), Psns{});
}

TEST_F(Completer, AReadResponseAcknowledgesEarlierRequests) {
  write(2);
  read(8);
  const std::array<std::byte, 8> bytes{std::byte{1}, std::byte{2}};
  EXPECT_EQ(
      answer(
          {.opcode = Opcode::kRcReadResponseOnly, .psn = 102, .aeth = {.syndrome = kAck, .msn = 3}},
          bytes),
      Drop::kNone);
  expect(0, WcStatus::kSuccess);
  expect(1, WcStatus::kSuccess);
  expect(2, WcStatus::kSuccess);
  EXPECT_EQ(pair.a.memory[1], std::byte{2});
}

// 9.7.5.1.3: the missing part of a READ is requested again once, with the address advanced, without
// waiting for the timer.
TEST_F(Completer, C9_7_5_1_3_AGapInAReadIsRequestedAgainFromThere) {
  read(5'000);  // PSNs 100 to 104
  const std::vector<std::byte> payload(1'024, std::byte{7});
  EXPECT_EQ(answer({.opcode = Opcode::kRcReadResponseFirst,
                    .psn = 100,
                    .aeth = {.syndrome = kAck, .msn = 1}},
                   payload),
            Drop::kNone);
  const Headers late{.opcode = Opcode::kRcReadResponseMiddle, .psn = 102};
  EXPECT_EQ(answer(late, payload), Drop::kOutOfSequence);
  const auto again = pair.transmit(pair.a);
  ASSERT_EQ(again.size(), 1U);
  ASSERT_EQ(parse(again[0]->frame), Drop::kNone);
  const Packet& packet = again[0]->frame.packet;
  EXPECT_EQ(packet.opcode, Opcode::kRcReadRequest);
  EXPECT_EQ(packet.psn, 101U);
  EXPECT_EQ(packet.reth().address, pair.b.address(1'024));
  EXPECT_EQ(packet.reth().length, 5'000U - 1'024U);
  EXPECT_EQ(answer(late, payload), Drop::kOutOfSequence);
  EXPECT_EQ(sends(), Psns{});
  EXPECT_EQ(answer({.opcode = Opcode::kRcReadResponseFirst,
                    .psn = 101,
                    .aeth = {.syndrome = kAck, .msn = 1}},
                   payload),
            Drop::kNone);
  EXPECT_EQ(answer(late, payload), Drop::kNone);
}

// The rest of a READ, requested again after a loss, is answered by some as the end of the first
// response (Linux's rxe: MIDDLE or LAST), by others as a response of its own (FIRST or ONLY: qib,
// hfi1).
TEST_F(Completer, C9_7_5_1_3_TheRestOfAReadComesInEitherForm) {
  using enum Opcode;
  constexpr std::uint32_t kLength = 3'500;  // PSNs 100 to 103
  const struct {
    std::uint32_t missing;  // the first PSN that is lost
    std::vector<Opcode> answer;
  } rows[] = {
      {101, {kRcReadResponseMiddle, kRcReadResponseMiddle, kRcReadResponseLast}},
      {101, {kRcReadResponseFirst, kRcReadResponseMiddle, kRcReadResponseLast}},
      {103, {kRcReadResponseLast}},
      {103, {kRcReadResponseOnly}},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(opcode_info(row.answer.front()).name);
    QpPair fresh;
    fill_pattern(fresh.b.memory, 3);
    fresh.a.post_send(rdma_wr(7, WrOpcode::kRdmaRead, fresh.b, 0),
                      std::array{fresh.a.sge(0, kLength)});
    fresh.exchange(
        [&](const Packet& packet, bool to_b) { return !to_b && packet.psn >= row.missing; });
    ASSERT_TRUE(fresh.next_deadline());
    const auto again = fresh.transmit(fresh.a);
    ASSERT_EQ(again.size(), 1U);
    ASSERT_EQ(parse(again[0]->frame), Drop::kNone);
    EXPECT_EQ(again[0]->frame.packet.psn, row.missing);
    for (std::uint32_t i = 0; i < row.answer.size(); ++i) {
      const std::uint32_t psn = row.missing + i;
      const std::size_t offset = (psn - 100) * std::size_t{1'024};
      const auto rest = std::span(fresh.b.memory).first(kLength).subspan(offset);
      EXPECT_EQ(fresh.deliver(
                    fresh.a,
                    *fresh.forge(
                        fresh.a,
                        {.opcode = row.answer[i], .psn = psn, .aeth = {.syndrome = kAck, .msn = 1}},
                        rest.first(std::min<std::size_t>(rest.size(), 1'024)))),
                Drop::kNone);
    }
    const auto cqe = fresh.a.poll_send();
    ASSERT_TRUE(cqe.has_value());
    EXPECT_EQ(cqe->status, WcStatus::kSuccess);
    EXPECT_TRUE(std::equal(fresh.a.memory.begin(), fresh.a.memory.begin() + kLength,
                           fresh.b.memory.begin()));
  }
}

TEST_F(Completer, AnAnswerThatDoesNotFitFailsTheRead) {
  const std::vector<std::byte> payload(1'024);
  const struct {
    Opcode opcode;
    std::uint32_t psn;
    std::size_t length;
  } rows[] = {
      {Opcode::kRcReadResponseOnly, 100, 1'024},   // ends too early
      {Opcode::kRcReadResponseFirst, 100, 1'020},  // short of the MTU
      {Opcode::kRcReadResponseMiddle, 101, 976},   // doesn't end
      {Opcode::kRcReadResponseLast, 101, 977},     // too long
      {Opcode::kRcAtomicAcknowledge, 100, 0},      // of another kind
  };
  for (const auto& row : rows) {
    QpPair fresh;
    fresh.a.post_send(rdma_wr(0, WrOpcode::kRdmaRead, fresh.b, 0),
                      std::array{fresh.a.sge(0, 2'000)});
    (void)fresh.transmit(fresh.a);
    const Headers first{
        .opcode = Opcode::kRcReadResponseFirst, .psn = 100, .aeth = {.syndrome = kAck, .msn = 1}};
    if (row.psn == 101) {
      (void)fresh.deliver(fresh.a, *fresh.forge(fresh.a, first, payload));
    }
    const Headers bad{.opcode = row.opcode, .psn = row.psn, .aeth = {.syndrome = kAck, .msn = 1}};
    (void)fresh.deliver(fresh.a, *fresh.forge(fresh.a, bad, std::span(payload).first(row.length)));
    const auto cqe = fresh.a.poll_send();
    ASSERT_TRUE(cqe.has_value()) << opcode_info(row.opcode).name << ' ' << row.length;
    EXPECT_EQ(cqe->status, WcStatus::kBadRespErr);
    EXPECT_EQ(fresh.a.qp().state(), QpState::kErr);
  }
}

// 9.7.5.2.8: after an RNR NAK nothing is sent for the time that it states, then everything from its
// PSN on.
TEST_F(Completer, C9_7_5_2_8_AnRnrNakIsWaitedFor) {
  write(3);
  EXPECT_EQ(answer(acknowledge(101, kSyndromeRnr | 12)), Drop::kNone);  // 640 us
  expect(0, WcStatus::kSuccess);
  EXPECT_EQ(sends(), Psns{});
  EXPECT_EQ(pair.a.qp().deadline(), pair.now + 640'000);
  // Neither a duplicate nor the sequence NAK that Linux sends for the rest cuts the wait short.
  EXPECT_EQ(answer(acknowledge(101, kSyndromeRnr | 1)), Drop::kNone);
  EXPECT_EQ(answer(acknowledge(101, kSyndromeNak)), Drop::kNone);
  EXPECT_EQ(sends(), Psns{});
  ASSERT_TRUE(pair.next_deadline());
  EXPECT_EQ(sends(), (Psns{101, 102}));
}

TEST_F(Completer, RnrRetriesAreCountedAndRefilledByProgress) {
  write(2);
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(answer(acknowledge(100, kSyndromeRnr | 1)), Drop::kNone);
    ASSERT_TRUE(pair.next_deadline());
    EXPECT_EQ(sends(), (Psns{100, 101}));
  }
  EXPECT_EQ(answer(acknowledge(101, kSyndromeRnr | 1)), Drop::kNone);
  ASSERT_TRUE(pair.next_deadline());
  EXPECT_EQ(sends(), (Psns{101}));
  EXPECT_EQ(answer(acknowledge(101, kSyndromeRnr | 1)), Drop::kNone);
  ASSERT_TRUE(pair.next_deadline());
  EXPECT_EQ(sends(), (Psns{101}));
  EXPECT_EQ(answer(acknowledge(101, kSyndromeRnr | 1)), Drop::kNone);
  expect(0, WcStatus::kSuccess);
  expect(1, WcStatus::kRnrRetryExcErr);
  EXPECT_EQ(pair.a.qp().state(), QpState::kErr);
}

// 9.7.5.2.2: a sequence NAK acknowledges everything before its PSN, which is sent again.
TEST_F(Completer, C9_7_5_2_2_ASequenceNakAsksForItsPacket) {
  write(4);
  EXPECT_EQ(answer(acknowledge(102, kSyndromeNak)), Drop::kNone);
  expect(0, WcStatus::kSuccess);
  expect(1, WcStatus::kSuccess);
  expect_nothing();
  EXPECT_EQ(sends(), (Psns{102}));
  EXPECT_EQ(answer(acknowledge(102, kSyndromeNak)), Drop::kNone);  // a copy
  EXPECT_EQ(sends(), Psns{});
}

TEST_F(Completer, C9_7_5_2_2_ASequenceNakSendsUsBackWithGoBackN) {
  pair.a.recovery = Recovery::kGoBackN;
  write(4);
  EXPECT_EQ(answer(acknowledge(102, kSyndromeNak)), Drop::kNone);
  expect(0, WcStatus::kSuccess);
  expect(1, WcStatus::kSuccess);
  expect_nothing();
  EXPECT_EQ(sends(), (Psns{102, 103}));
  EXPECT_EQ(answer(acknowledge(102, kSyndromeNak)), Drop::kNone);  // a copy
  EXPECT_EQ(sends(), Psns{});
}

// Table 61 and 9.7.5.2.4 to 9.7.5.2.7: the request at the NAK's PSN fails, earlier ones have
// succeeded, later ones are flushed.
TEST_F(Completer, C9_7_5_2_FatalNaksFailTheRequestTheyName) {
  const struct {
    Nak nak;
    WcStatus status;
    Failure failure;
  } rows[] = {
      {Nak::kInvalidRequest, WcStatus::kRemInvReqErr, Failure::kNakInvalidRequest},
      {Nak::kInvalidRdRequest, WcStatus::kRemInvReqErr, Failure::kNakInvalidRequest},
      {Nak::kRemoteAccess, WcStatus::kRemAccessErr, Failure::kNakRemoteAccess},
      {Nak::kRemoteOperational, WcStatus::kRemOpErr, Failure::kNakRemoteOperation},
  };
  for (const auto& row : rows) {
    QpPair fresh;
    for (std::uint64_t id = 0; id < 3; ++id) {
      fresh.a.post_send(rdma_wr(id, WrOpcode::kRdmaWrite, fresh.b, 0, 0),
                        std::array{fresh.a.sge(0, 8)});
    }
    (void)fresh.transmit(fresh.a);
    (void)fresh.deliver(
        fresh.a, *fresh.forge(fresh.a, acknowledge(101, static_cast<std::uint8_t>(
                                                            kSyndromeNak |
                                                            static_cast<std::uint8_t>(row.nak)))));
    const auto failed = fresh.a.poll_send();  // 0 wasn't signalled
    ASSERT_TRUE(failed.has_value());
    EXPECT_EQ(failed->wr_id, 1U);
    EXPECT_EQ(failed->status, row.status);
    EXPECT_EQ(failed->vendor_err, static_cast<std::uint32_t>(row.failure));
    const auto flushed = fresh.a.poll_send();
    ASSERT_TRUE(flushed.has_value());
    EXPECT_EQ(flushed->wr_id, 2U);
    EXPECT_EQ(flushed->status, WcStatus::kWrFlushErr);
  }
}

// A fatal NAK after a READ whose response was lost doesn't fail the READ: it is requested again
// first.
TEST_F(Completer, AFatalNakAfterALostReadRequestsTheReadAgainFirst) {
  read(8);
  write(1);
  EXPECT_EQ(answer(acknowledge(101, kSyndromeNak | 2)), Drop::kNone);
  expect_nothing();
  EXPECT_EQ(sends(), (Psns{100, 101}));
}

TEST_F(Completer, AReadIntoLostMemoryFailsAfterEarlierRequests) {
  write(1);
  read(8);
  ASSERT_NE(pair.a.keys().remove(pair.a.key()), nullptr);
  const std::array<std::byte, 8> bytes{};
  EXPECT_EQ(
      answer(
          {.opcode = Opcode::kRcReadResponseOnly, .psn = 101, .aeth = {.syndrome = kAck, .msn = 2}},
          bytes),
      Drop::kNone);
  expect(0, WcStatus::kSuccess);
  expect(1, WcStatus::kLocProtErr);
}

TEST_F(Completer, AnswersInErrorAreDropped) {
  write(1);
  pair.a.to_error(pair.now);
  EXPECT_EQ(answer(acknowledge(100)), Drop::kWrongQpState);
}

}  // namespace
}  // namespace uroce::test
