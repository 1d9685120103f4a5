// What the requester sends: the packets of each kind of work request, windows and order.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/qp/expect_success.h"
#include "tests/unit/qp/qp_pair.h"

namespace uroce::test {
namespace {

using abi::WcOpcode;
using abi::WcStatus;
using abi::WrOpcode;

// The opcodes and PSNs of frames, to be compared with a list.
std::vector<Opcode> opcodes(const QpPair::Frames& frames) {
  std::vector<Opcode> result;
  for (const auto& frame : frames) {
    EXPECT_EQ(parse(frame->frame), Drop::kNone);
    result.push_back(frame->frame.packet.opcode);
  }
  return result;
}

bool same(const Endpoint& left, std::size_t left_offset, const Endpoint& right,
          std::size_t right_offset, std::size_t length) {
  return std::equal(left.memory.begin() + static_cast<std::ptrdiff_t>(left_offset),
                    left.memory.begin() + static_cast<std::ptrdiff_t>(left_offset + length),
                    right.memory.begin() + static_cast<std::ptrdiff_t>(right_offset));
}

TEST(Requester, SendsAMessageToAPostedReceive) {
  QpPair pair;
  fill_pattern(std::span(pair.a.memory).first(5'000), 1);
  pair.b.post_recv(1, std::array{pair.b.sge(0, 6'000)});
  pair.a.post_send(send_wr(2, WrOpcode::kSend), std::array{pair.a.sge(0, 5'000)});

  pair.exchange();

  expect_success(pair.a, 2);
  const auto received = pair.b.poll_recv();
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->byte_len, 5'000U);
  EXPECT_TRUE(same(pair.a, 0, pair.b, 0, 5'000));
  EXPECT_EQ(pair.a.send_consumer(), 1U);
}

// 9.4.3 to 9.4.5: ONLY for one packet, else FIRST, MIDDLE, LAST; the immediate is at the end.
TEST(Requester, OpcodesFollowThePlaceInTheMessage) {
  using enum Opcode;
  const struct {
    WrOpcode opcode;
    std::vector<Opcode> three, one;
  } rows[] = {
      {WrOpcode::kSend, {kRcSendFirst, kRcSendMiddle, kRcSendLast}, {kRcSendOnly}},
      {WrOpcode::kSendWithImm, {kRcSendFirst, kRcSendMiddle, kRcSendLastImm}, {kRcSendOnlyImm}},
      {WrOpcode::kSendWithInv, {kRcSendFirst, kRcSendMiddle, kRcSendLastInv}, {kRcSendOnlyInv}},
      {WrOpcode::kRdmaWrite, {kRcWriteFirst, kRcWriteMiddle, kRcWriteLast}, {kRcWriteOnly}},
      {WrOpcode::kRdmaWriteWithImm,
       {kRcWriteFirst, kRcWriteMiddle, kRcWriteLastImm},
       {kRcWriteOnlyImm}},
      {WrOpcode::kRdmaRead, {kRcReadRequest}, {kRcReadRequest}},
  };
  for (const auto& row : rows) {
    QpPair pair;
    pair.a.post_send(rdma_wr(1, row.opcode, pair.b, 0), std::array{pair.a.sge(0, 2'049)});
    EXPECT_EQ(opcodes(pair.transmit(pair.a)), row.three);
    pair.a.post_send(rdma_wr(2, row.opcode, pair.b, 0), std::array{pair.a.sge(0, 1'024)});
    EXPECT_EQ(opcodes(pair.transmit(pair.a)), row.one);
  }
}

TEST(Requester, RequestsAcknowledgementsAtTheEndAndWithinLongMessages) {
  QpPair pair;
  const std::size_t packets = 3 * Requester::kAckRequestEvery;
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, pair.b, 0),
                   std::array{pair.a.sge(0, packets * 1'024)});
  const auto frames = pair.transmit(pair.a);
  ASSERT_EQ(frames.size(), packets);
  std::size_t since = 0;
  for (const auto& frame : frames) {
    ASSERT_EQ(parse(frame->frame), Drop::kNone);
    since = frame->frame.packet.ack_request ? 0 : since + 1;
    EXPECT_LT(since, Requester::kAckRequestEvery);
  }
  EXPECT_EQ(since, 0U);
}

TEST(Requester, CarriesImmediateAndSolicitedEvent) {
  QpPair pair;
  pair.b.post_recv(1, std::array{pair.b.sge(0, 64)});
  pair.b.post_recv(2, {});
  abi::SendWr send = send_wr(3, WrOpcode::kSendWithImm, abi::kSignaled | abi::kSolicited);
  send.immediate = 0x11223344;
  pair.a.post_send(send, std::array{pair.a.sge(0, 64)});
  abi::SendWr write = rdma_wr(4, WrOpcode::kRdmaWriteWithImm, pair.b, 0);
  write.immediate = 0x55667788;
  pair.a.post_send(write, std::array{pair.a.sge(0, 2'000)});

  bool solicited = false;
  pair.exchange([&](const Packet& packet, bool) {
    solicited = solicited || packet.solicited;
    return false;
  });

  EXPECT_TRUE(solicited);
  const auto first = pair.b.poll_recv();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->opcode, WcOpcode::kRecv);
  EXPECT_EQ(first->immediate, 0x11223344U);
  const auto second = pair.b.poll_recv();
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->opcode, WcOpcode::kRecvRdmaWithImm);
  EXPECT_EQ(second->immediate, 0x55667788U);
  EXPECT_EQ(second->byte_len, 2'000U);
}

TEST(Requester, MovesEverySizeByEveryKindAtEveryMtu) {
  for (const std::uint32_t mtu : {256U, 512U, 1'024U, 2'048U, 4'096U}) {
    QpPair pair({.path_mtu = mtu});
    fill_pattern(pair.a.memory, mtu);
    std::uint64_t id = 0;
    for (const std::size_t length :
         std::initializer_list<std::size_t>{0, 1, 3, 4, mtu - 1, mtu, mtu + 1, 3 * mtu, 20'001}) {
      SCOPED_TRACE(testing::Message() << "mtu " << mtu << " length " << length);
      std::fill(pair.b.memory.begin(), pair.b.memory.end(), std::byte{0});
      pair.a.post_send(rdma_wr(++id, WrOpcode::kRdmaWrite, pair.b, 5),
                       std::array{pair.a.sge(7, length)});
      pair.exchange();
      expect_success(pair.a, id);
      EXPECT_TRUE(same(pair.a, 7, pair.b, 5, length));
      EXPECT_EQ(pair.b.memory[5 + length], std::byte{0});
      pair.a.post_send(rdma_wr(++id, WrOpcode::kRdmaRead, pair.b, 5),
                       std::array{pair.a.sge(500'000, length)});
      pair.exchange();
      expect_success(pair.a, id);
      EXPECT_TRUE(same(pair.a, 500'000, pair.b, 5, length));
    }
  }
}

TEST(Requester, GathersAndScattersLists) {
  QpPair pair;
  fill_pattern(std::span(pair.a.memory).first(10'000), 3);
  const std::array list{pair.a.sge(0, 1'000), pair.a.sge(5'000, 0), pair.a.sge(3'000, 30),
                        pair.a.sge(7'000, 1'700)};
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, pair.b, 0), list);
  pair.exchange();
  EXPECT_TRUE(same(pair.a, 0, pair.b, 0, 1'000));
  EXPECT_TRUE(same(pair.a, 3'000, pair.b, 1'000, 30));
  EXPECT_TRUE(same(pair.a, 7'000, pair.b, 1'030, 1'700));

  const std::array into{pair.a.sge(20'000, 1), pair.a.sge(30'000, 2'728), pair.a.sge(40'000, 1)};
  pair.a.post_send(rdma_wr(2, WrOpcode::kRdmaRead, pair.b, 0), into);
  pair.exchange();
  EXPECT_TRUE(same(pair.a, 20'000, pair.b, 0, 1));
  EXPECT_TRUE(same(pair.a, 30'000, pair.b, 1, 2'728));
  EXPECT_TRUE(same(pair.a, 40'000, pair.b, 2'729, 1));
}

// Inline bytes are copied when the work request is accepted: later changes by the program have no
// effect.
TEST(Requester, RetransmitsTheSameInlineBytes) {
  QpPair pair;
  std::array<std::byte, 33> bytes{};
  fill_pattern(bytes, 4);
  pair.a.post_inline(rdma_wr(1, WrOpcode::kRdmaWrite, pair.b, 0), bytes);
  int frames = 0;
  pair.run([&](const Packet&, bool) { return frames++ == 0; });
  expect_success(pair.a, 1);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), pair.b.memory.begin()));
}

TEST(Requester, AppliesAtomicsAndReturnsTheOriginal) {
  QpPair pair;
  const auto at = [](Endpoint& end, std::size_t offset) -> std::uint64_t& {
    return *reinterpret_cast<std::uint64_t*>(end.memory.data() + offset);
  };
  at(pair.b, 0) = 10;
  at(pair.b, 8) = 0x0102030405060708;
  abi::SendWr add = rdma_wr(1, WrOpcode::kAtomicFetchAndAdd, pair.b, 0);
  add.atomic.compare_add = 5;
  pair.a.post_send(add, std::array{pair.a.sge(0, 8)});
  abi::SendWr swap = rdma_wr(2, WrOpcode::kAtomicCmpAndSwp, pair.b, 8);
  swap.atomic.compare_add = 0x0102030405060708;
  swap.atomic.swap = 99;
  pair.a.post_send(swap, std::array{pair.a.sge(8, 8)});

  pair.exchange();

  expect_success(pair.a, 1);
  expect_success(pair.a, 2);
  EXPECT_EQ(at(pair.b, 0), 15U);
  EXPECT_EQ(at(pair.a, 0), 10U);
  EXPECT_EQ(at(pair.b, 8), 99U);
  EXPECT_EQ(at(pair.a, 8), 0x0102030405060708U);
}

TEST(Requester, CountsThroughThePsnWrap) {
  QpPair pair({.psn_a = 0xFF'FFFD, .psn_b = 0xFF'FFFF});
  fill_pattern(pair.a.memory, 5);
  for (std::uint64_t id = 0; id < 6; ++id) {
    const bool reads = id % 2 == 1;
    pair.a.post_send(rdma_wr(id, reads ? WrOpcode::kRdmaRead : WrOpcode::kRdmaWrite, pair.b, 0),
                     std::array{pair.a.sge(reads ? 100'000 : 0, 3'000)});
    pair.exchange();
    expect_success(pair.a, id);
  }
  EXPECT_TRUE(same(pair.a, 0, pair.a, 100'000, 3'000));
}

// A READ uses a PSN for each response: 2^31 bytes at MTU 256 use all that may be outstanding.
TEST(Requester, ReadsTheLongestMessage) {
  QpPair pair({.path_mtu = 256, .psn_a = 0xFF'FFF0});
  constexpr std::uint32_t kLength = 1U << 31U;
  constexpr std::uint32_t kPsns = kLength / 256;
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaRead, pair.b, 0), std::array{pair.a.sge(0, kLength)});
  pair.a.post_send(rdma_wr(2, WrOpcode::kRdmaRead, pair.b, 0), std::array{pair.a.sge(0, 8)});
  auto frames = pair.transmit(pair.a);
  ASSERT_EQ(opcodes(frames), std::vector{Opcode::kRcReadRequest});
  EXPECT_EQ(frames[0]->frame.packet.reth().length, kLength);
  const std::vector<std::byte> payload(256);
  for (std::uint32_t i = 0; i < 1'000; ++i) {
    const Headers answer{
        .opcode = i == 0 ? Opcode::kRcReadResponseFirst : Opcode::kRcReadResponseMiddle,
        .psn = psn_add(0xFF'FFF0, i),
        .aeth = {.syndrome = kSyndromeAckUnlimited, .msn = 1}};
    ASSERT_EQ(pair.deliver(pair.a, *pair.forge(pair.a, answer, payload)), Drop::kNone);
  }
  // The last response is far ahead, but outstanding; the next one isn't.
  const Headers last{.opcode = Opcode::kRcReadResponseMiddle, .psn = psn_add(0xFF'FFF0, kPsns - 1)};
  EXPECT_EQ(pair.deliver(pair.a, *pair.forge(pair.a, last, payload)), Drop::kOutOfSequence);
  const Headers beyond{.opcode = Opcode::kRcReadResponseMiddle, .psn = psn_add(0xFF'FFF0, kPsns)};
  EXPECT_EQ(pair.deliver(pair.a, *pair.forge(pair.a, beyond, payload)), Drop::kStaleResponse);
  frames = pair.transmit(pair.a);
  ASSERT_EQ(opcodes(frames), std::vector{Opcode::kRcReadRequest});
  EXPECT_EQ(frames[0]->frame.packet.psn, psn_add(0xFF'FFF0, 1'000));
  EXPECT_EQ(frames[0]->frame.packet.reth().length, kLength - 256'000);
  EXPECT_EQ(frames[0]->frame.packet.reth().address, pair.b.address(256'000));
}

TEST(Requester, KeepsToTheWindow) {
  QpPair pair({.path_mtu = 256});
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, pair.b, 0),
                   std::array{pair.a.sge(0, 1U << 20U)});
  std::size_t sent = 0;
  for (std::size_t frames = 1; frames != 0; sent += frames) {
    frames = pair.transmit(pair.a).size();
  }
  EXPECT_EQ(sent, Requester::kWindowPackets);

  QpPair large({.a = {.memory_bytes = 4U << 20U},
                .b = {.qpn = 18, .memory_bytes = 4U << 20U},
                .path_mtu = 4'096});
  large.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, large.b, 0),
                    std::array{large.a.sge(0, 4U << 20U)});
  sent = 0;
  for (std::size_t frames = 1; frames != 0; sent += frames) {
    frames = large.transmit(large.a).size();
  }
  EXPECT_EQ(sent, Requester::kWindowBytes / 4'096);
}

// 9.7.4 (max_rd_atomic): no more READs and atomics are outstanding than the peer has resources for.
TEST(Requester, BoundsOutstandingReadsAndAtomics) {
  QpPair pair({.max_rd_atomic = 2});
  for (std::uint64_t id = 0; id < 5; ++id) {
    pair.a.post_send(rdma_wr(id, WrOpcode::kRdmaRead, pair.b, 0), std::array{pair.a.sge(0, 8)});
  }
  EXPECT_EQ(pair.transmit(pair.a).size(), 2U);
  EXPECT_FALSE(pair.a.qp().has_work());
  pair.run();
  for (std::uint64_t id = 0; id < 5; ++id) {
    expect_success(pair.a, id);
  }
}

// 10.8.3.3: a fenced request waits for earlier READs and atomics, not for earlier writes.
TEST(Requester, FenceWaitsForReads) {
  QpPair pair;
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 8)});
  pair.a.post_send(rdma_wr(2, WrOpcode::kRdmaWrite, pair.b, 0, abi::kSignaled | abi::kFence),
                   std::array{pair.a.sge(0, 8)});
  pair.a.post_send(rdma_wr(3, WrOpcode::kRdmaRead, pair.b, 0), std::array{pair.a.sge(0, 8)});
  pair.a.post_send(rdma_wr(4, WrOpcode::kRdmaWrite, pair.b, 0, abi::kSignaled | abi::kFence),
                   std::array{pair.a.sge(0, 8)});
  const auto frames = pair.transmit(pair.a);
  EXPECT_EQ(frames.size(), 3U);
  for (const auto& frame : frames) {
    EXPECT_EQ(pair.deliver(pair.b, *frame), Drop::kNone);
  }
  pair.exchange();
  for (std::uint64_t id = 1; id <= 4; ++id) {
    expect_success(pair.a, id);
  }
}

TEST(Requester, CompletesOnlySignalledWorkButFreesAllSlots) {
  QpPair pair;
  for (std::uint64_t id = 1; id <= 3; ++id) {
    pair.a.post_send(rdma_wr(id, WrOpcode::kRdmaWrite, pair.b, 0,
                             static_cast<std::uint8_t>(id == 3 ? abi::kSignaled : 0)),
                     std::array{pair.a.sge(0, 8)});
  }
  pair.exchange();
  expect_success(pair.a, 3);
  EXPECT_FALSE(pair.a.poll_send().has_value());
  EXPECT_EQ(pair.a.send_consumer(), 3U);

  QpPair all({.a = {.signal_all = true}});
  all.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, all.b, 0, 0), std::array{all.a.sge(0, 8)});
  all.exchange();
  expect_success(all.a, 1);
}

TEST(Requester, ForgetsEverythingAtReset) {
  QpPair pair;
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 3'000)});
  (void)pair.transmit(pair.a, 1);
  pair.a.post_send(rdma_wr(2, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 3'000)});
  pair.a.modify({.state = QpState::kReset}, kQpMaskState, pair.now);
  EXPECT_FALSE(pair.a.qp().has_work());
  EXPECT_EQ(pair.a.qp().deadline(), kNever);
  EXPECT_FALSE(pair.a.poll_send().has_value());
  EXPECT_EQ(pair.a.send_consumer(), 2U);
}

}  // namespace
}  // namespace uroce::test
