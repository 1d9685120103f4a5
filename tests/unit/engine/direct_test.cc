// Messages between queue pairs of one worker, with and without frames: completions, bytes and PSNs
// are the same.

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/engine/both_ways.h"

namespace uroce::test {
namespace {

using abi::WrOpcode;

TEST(Direct, WritesOfAllLengths) {
  constexpr std::size_t kLengths[] = {0, 1, 8, 1'023, 1'024, 1'025, 4'096, 70'000, 200'000};
  EXPECT_EQ(std::size(kLengths), both_ways([&](OneDaemon& daemon) {
              for (const std::size_t length : kLengths) {
                daemon.post_write(length, length);
              }
            }));
}

TEST(Direct, NoFrameIsSent) {
  OneDaemon daemon(true, small_memory());
  daemon.post_write(1, 100'000);
  daemon.settle();
  ASSERT_TRUE(daemon.pair.a.poll_send());
  EXPECT_EQ(daemon.port.counters().tx_frames, 0U);
  EXPECT_EQ(daemon.pair.a.qp().counters().requests_sent, 0U);
  EXPECT_EQ(daemon.pair.a.qp().counters().direct_bytes, 100'000U);
  EXPECT_EQ(daemon.pair.b.qp().counters().bytes_received, 100'000U);
  EXPECT_EQ(daemon.station.worker.next_deadline(), kNever);
}

TEST(Direct, SendsOfListsIntoLists) {
  EXPECT_EQ(3U, both_ways([](OneDaemon& daemon) {
              post_receives(daemon, 3, 20'000);
              const abi::Sge sges[] = {daemon.pair.a.sge(7, 3'000), daemon.pair.a.sge(50'000, 1),
                                       daemon.pair.a.sge(60'000, 9'999)};
              daemon.post(send_wr(1, WrOpcode::kSend), sges);
              daemon.post(with_immediate(WrOpcode::kSendWithImm, 2, daemon.pair.b), sges);
              daemon.post(send_wr(3, WrOpcode::kSend), {});
            }));
}

TEST(Direct, WritesWithImmediateTakeAReceive) {
  EXPECT_EQ(2U, both_ways([](OneDaemon& daemon) {
              post_receives(daemon, 2, 64);
              const abi::Sge sge = daemon.pair.a.sge(0, 50'000);
              daemon.post(with_immediate(WrOpcode::kRdmaWriteWithImm, 1, daemon.pair.b), {&sge, 1});
              daemon.post(with_immediate(WrOpcode::kRdmaWriteWithImm, 2, daemon.pair.b), {});
            }));
}

TEST(Direct, InlineBytes) {
  EXPECT_EQ(1U, both_ways([](OneDaemon& daemon) {
              const std::vector<std::byte> bytes(60, std::byte{0x5A});
              abi::SendWr wr = rdma_wr(1, WrOpcode::kRdmaWrite, daemon.pair.b, 33);
              wr.flags = abi::kSignaled | abi::kInline;
              daemon.pair.a.post_inline(wr, bytes);
              daemon.station.ring(daemon.a);
            }));
}

TEST(Direct, ReadsAtomicsAndFencesInOrder) {
  PairConfig config = small_memory();
  config.max_rd_atomic = 2;
  const auto act = [](OneDaemon& daemon) {
    Endpoint& b = daemon.pair.b;
    const abi::Sge whole = daemon.pair.a.sge(0, 100'001);
    daemon.post(rdma_wr(1, WrOpcode::kRdmaRead, b, 5), {&whole, 1});
    daemon.post(rdma_wr(2, WrOpcode::kRdmaRead, b, 900), {});
    const abi::Sge word = daemon.pair.a.sge(120'000, 8);
    abi::SendWr add = rdma_wr(3, WrOpcode::kAtomicFetchAndAdd, b, 4'096);
    add.atomic.compare_add = 77;
    daemon.post(add, {&word, 1});
    const abi::Sge other = daemon.pair.a.sge(120'008, 8);
    abi::SendWr swap = rdma_wr(4, WrOpcode::kAtomicCmpAndSwp, b, 4'096);
    std::uint64_t before = 0;
    std::memcpy(&before, b.memory.data() + 4'096, sizeof(before));
    swap.atomic.compare_add = before + 77;
    swap.atomic.swap = 1'234;
    daemon.post(swap, {&other, 1});
    abi::SendWr fenced = rdma_wr(5, WrOpcode::kRdmaWrite, b, 4'096);
    fenced.flags = abi::kSignaled | abi::kFence;
    daemon.post(fenced, {&word, 1});
    daemon.post(rdma_wr(6, WrOpcode::kRdmaRead, b, 4'096), {&other, 1});
  };
  EXPECT_EQ(6U, both_ways(act, config));
}

TEST(Direct, BothDirectionsAndTheWrapOfPsns) {
  PairConfig config = small_memory();
  config.psn_a = 0xFF'FFF0;
  config.psn_b = 0xFF'FFFF;
  EXPECT_EQ(42U, both_ways(
                     [](OneDaemon& daemon) {
                       for (std::uint64_t i = 0; i < 21; ++i) {
                         daemon.post_write(i, 3'000, i * 3'000);
                         const abi::Sge sge = daemon.pair.b.sge(100'000 + i * 2'000, 2'000);
                         daemon.pair.b.post_send(
                             rdma_wr(i, WrOpcode::kRdmaWrite, daemon.pair.a, 100'000 + i * 2'000),
                             {&sge, 1});
                         daemon.station.ring(daemon.b);
                       }
                     },
                     config));
}

// After messages had to go as frames they go directly again, even while new ones are posted.
TEST(Direct, GoesDirectlyAgainAfterFrames) {
  OneDaemon daemon(true, small_memory());
  const abi::Sge sge = daemon.pair.a.sge(0, 900);
  daemon.post(send_wr(0, WrOpcode::kSend), {&sge, 1});  // finds no receive
  daemon.settle();
  post_receives(daemon, 1, 1'000);
  for (std::uint64_t i = 1; i <= 40; ++i) {
    daemon.post_write(i, 2'000);
  }
  daemon.settle(true);
  for (std::uint64_t i = 0; i <= 40; ++i) {
    const auto cqe = daemon.pair.a.poll_send();
    ASSERT_TRUE(cqe);
    EXPECT_EQ(cqe->wr_id, i);
    EXPECT_EQ(cqe->status, abi::WcStatus::kSuccess);
  }
  EXPECT_GE(daemon.pair.a.qp().counters().direct_messages, 30U);
}

// A READ's answer lets the peer go on at once: no time passes here.
TEST(Direct, ReadsAreAnsweredWithoutATimer) {
  constexpr std::uint64_t kReads = 3;
  PairConfig config = small_memory();
  config.max_rd_atomic = 1;
  OneDaemon daemon(true, config);
  const abi::Sge sge = daemon.pair.a.sge(0, 8);
  for (std::uint64_t i = 1; i <= kReads; ++i) {
    daemon.post(rdma_wr(i, WrOpcode::kRdmaRead, daemon.pair.b, 0), {&sge, 1});
  }
  daemon.settle();
  for (std::uint64_t i = 1; i <= kReads; ++i) {
    EXPECT_TRUE(daemon.pair.a.poll_send());
  }
  EXPECT_EQ(daemon.port.counters().tx_frames, 0U);
}

// A peer isn't local if the port's MAC address is another, as when another interface is attached.
TEST(Direct, NoPeerIsLocalWhenThePortHasChanged) {
  OneDaemon daemon(true, small_memory());
  daemon.post_write(1, 8);
  daemon.settle();
  EXPECT_EQ(daemon.pair.a.qp().counters().direct_messages, 1U);
  PortInfo other = daemon.port.info();
  other.mac.bytes.back() ^= 1U;
  other.any_mac = false;
  daemon.station.worker.update_port(0, other);
  daemon.post_write(2, 8);
  daemon.settle();
  EXPECT_EQ(daemon.pair.a.qp().counters().direct_messages, 1U);
}

// The local peer is determined again when the port's addresses have changed.
TEST(Direct, NoPeerIsLocalAtARemovedAddress) {
  OneDaemon daemon(true, small_memory());
  const auto direct_messages = [&daemon] { return daemon.pair.a.qp().counters().direct_messages; };
  daemon.post_write(1, 8);
  daemon.settle();
  EXPECT_EQ(direct_messages(), 1U);
  daemon.station.worker.set_addresses(0, {parse_ip("10.0.0.1").value()});
  daemon.post_write(2, 8);
  daemon.settle();
  EXPECT_EQ(direct_messages(), 1U) << "b's address isn't the port's any more";
  EXPECT_NE(daemon.pair.a.qp().state(), QpState::kErr);
  daemon.station.worker.set_addresses(0,
                                      {parse_ip("10.0.0.1").value(), parse_ip("10.0.0.2").value()});
  daemon.settle(true);  // the frame that got lost comes again
  daemon.post_write(3, 8);
  daemon.settle(true);
  EXPECT_EQ(direct_messages(), 2U);
}

// A peer that was removed from the worker isn't used any more.
TEST(Direct, ARemovedPeerIsForgotten) {
  OneDaemon daemon(true, small_memory());
  daemon.post_write(1, 8);
  daemon.settle();
  EXPECT_EQ(daemon.pair.a.qp().counters().direct_messages, 1U);
  daemon.station.worker.remove_qp(daemon.pair.b.qp());
  daemon.post_write(2, 8);
  daemon.settle();
  EXPECT_EQ(daemon.pair.a.qp().counters().direct_messages, 1U);
  daemon.b = daemon.station.add(daemon.pair.b.qp());
  daemon.settle(true);
  daemon.post_write(3, 8);
  daemon.settle(true);
  EXPECT_EQ(daemon.pair.a.qp().counters().direct_messages, 2U);
}

// A peer that has been reconnected to another queue pair isn't local any more.
TEST(Direct, APeerReconnectedElsewhereIsNoLongerUsed) {
  ManyPairs pairs(2);
  pairs.post_write(0, 1);
  pairs.daemon.settle();
  Qp& sender = pairs.senders[0].qp();
  EXPECT_EQ(sender.counters().direct_messages, 1U);
  QpAttributes elsewhere = pairs.receivers[0].qp().attributes();
  elsewhere.dest_qpn = pairs.senders[1].qp().config().qpn;
  pairs.daemon.station.worker.modify_qp(pairs.receivers[0].qp(), elsewhere, kQpMaskDestQpn);
  pairs.post_write(0, 2);
  pairs.daemon.settle();
  EXPECT_EQ(sender.counters().direct_messages, 1U);
}

}  // namespace
}  // namespace uroce::test
