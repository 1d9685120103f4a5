// Messages between two queue pairs of one worker that are sent as frames nevertheless.

#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "abi/capture_records.h"
#include "dataplane/engine/turn/capture.h"
#include "dataplane/port/faults/faulty_port.h"
#include "tests/unit/engine/one_daemon.h"

namespace uroce::test {
namespace {

using abi::WrOpcode;

struct alignas(abi::kCaptureRingOffset) CaptureRing {
  std::array<std::byte, abi::kCaptureRingOffset + abi::kCaptureRingMin> bytes{};
};

TEST(DirectFrames, MemoryThatIsNotMappedGoesAsFrames) {
  PairConfig config = small_memory();
  config.b.slow_way = true;
  OneDaemon daemon(true, config);
  fill_pattern(daemon.pair.a.memory, 5);
  for (std::uint64_t i = 0; i < 100; ++i) {
    daemon.post_write(i, 2'000, i * 2'000);
    daemon.settle();
  }
  std::uint32_t completed = 0;
  while (daemon.pair.a.poll_send()) {
    ++completed;
  }
  EXPECT_EQ(completed, 100U);
  EXPECT_EQ(daemon.pair.a.qp().counters().direct_messages, 0U);
  EXPECT_TRUE(std::equal(daemon.pair.a.memory.begin(), daemon.pair.a.memory.begin() + 200'000,
                         daemon.pair.b.memory.begin()));
}

// Fault injection needs to see frames.
TEST(DirectFrames, APortWithFaultsGetsFrames) {
  FaultyPort port(std::make_unique<LoopbackPort>(4'196, 1), Faults{});
  QpPair pair(in_one_daemon(small_memory(), port));
  Station station({.ports = {&port}, .keys = &pair.a.keys(), .direct = true}, "10.0.0.1");
  station.worker.set_addresses(0, {parse_ip("10.0.0.1").value(), parse_ip("10.0.0.2").value()});
  station.add(pair.a.qp());
  station.add(pair.b.qp());
  const abi::Sge sge = pair.a.sge(0, 100);
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, pair.b, 0), {&sge, 1});
  station.ring();
  while (station.worker.poll(1'000'000)) {
  }
  ASSERT_TRUE(pair.a.poll_send());
  EXPECT_EQ(pair.a.qp().counters().direct_messages, 0U);
  EXPECT_NE(port.counters().tx_frames, 0U);
}

// They are sent back to back as to a remote peer, not each after the previous one's answer.
TEST(DirectFrames, MessagesThatNeedFramesAreSentBackToBack) {
  OneDaemon daemon(true, small_memory());
  constexpr std::uint32_t kCount = 4;  // as many as may be under way
  for (std::uint32_t i = 0; i < kCount; ++i) {
    const abi::Sge sge = daemon.pair.a.sge(8 * i, 8);
    daemon.pair.a.post_send(rdma_wr(i, WrOpcode::kAtomicWrite, daemon.pair.b, 8 * i), {&sge, 1});
  }
  daemon.station.ring();
  daemon.station.worker.poll(daemon.now);
  EXPECT_EQ(daemon.pair.a.qp().counters().requests_sent, kCount);
  daemon.settle();
  for (std::uint32_t i = 0; i < kCount; ++i) {
    EXPECT_TRUE(daemon.pair.a.poll_send());
  }
}

// A receiver that wasn't ready once, and then took messages directly. One whose rest goes as frames
// must not wait for the answer to a question that nobody asked.
TEST(DirectFrames, TheRestOfASendToAPeerThatWasntReadyIsntHeldBack) {
  const auto ring = std::make_unique<CaptureRing>();
  CaptureWriter writer(ring->bytes, 256);
  OneDaemon daemon(true, small_memory({.min_rnr_timer = 12}));
  QpPair& pair = daemon.pair;
  const auto send = [&](std::uint64_t id, std::size_t length) {
    const abi::Sge sge = pair.a.sge(0, length);
    daemon.post(send_wr(id, WrOpcode::kSend), {&sge, 1});
  };
  const auto receive = [&](std::uint64_t id, std::size_t length) {
    pair.b.post_recv(id, std::array{pair.b.sge(0, length)});
    daemon.station.ring(daemon.b);
  };
  send(1, 8);
  daemon.settle();  // an RNR NAK
  receive(1, 8);
  daemon.settle(true);
  ASSERT_TRUE(pair.a.poll_send());
  for (std::uint64_t id = 2; id < 5; ++id) {
    receive(id, 8);
    send(id, 8);
    daemon.settle();
    ASSERT_TRUE(pair.a.poll_send());
  }
  EXPECT_EQ(pair.a.qp().counters().direct_messages, 3U);
  const std::uint64_t before = pair.a.qp().counters().direct_bytes;
  constexpr std::size_t kSlices = 200'000;
  receive(5, kSlices);
  send(5, kSlices);
  while (pair.a.qp().counters().direct_bytes == before) {
    daemon.station.worker.poll(daemon.now);
  }
  ASSERT_LT(pair.a.qp().counters().direct_bytes - before, kSlices);
  EXPECT_TRUE(daemon.station.worker.set_capture(&writer));
  daemon.settle();
  EXPECT_TRUE(pair.a.poll_send()) << "without that time passes";
  EXPECT_EQ(pair.a.qp().counters().local_ack_timeout_err, 0U);
  EXPECT_TRUE(daemon.station.worker.set_capture(nullptr));
}

TEST(DirectFrames, ACaptureGetsFrames) {
  const auto ring = std::make_unique<CaptureRing>();
  CaptureWriter writer(ring->bytes, 256);
  OneDaemon daemon(true, small_memory());
  ASSERT_TRUE(daemon.station.worker.set_capture(&writer));
  daemon.post_write(1, 100);
  daemon.settle();
  EXPECT_TRUE(daemon.pair.a.poll_send());
  EXPECT_EQ(daemon.pair.a.qp().counters().direct_messages, 0U);
  EXPECT_NE(reinterpret_cast<const abi::CaptureControl*>(ring->bytes.data())->head.load(), 0U);
  ASSERT_TRUE(daemon.station.worker.set_capture(nullptr));
  daemon.post_write(2, 100);
  daemon.settle();
  EXPECT_EQ(daemon.pair.a.qp().counters().direct_messages, 1U);
}

// If the connection isn't mutual, messages go as frames.
TEST(DirectFrames, AQueuePairConnectedElsewhereGetsFrames) {
  OneDaemon daemon(true, small_memory());
  QpAttributes elsewhere = daemon.pair.b.qp().attributes();
  elsewhere.dest_qpn = 0x999;
  daemon.pair.b.modify(elsewhere, kQpMaskDestQpn);
  daemon.post_write(1, 100);
  daemon.settle();
  EXPECT_EQ(daemon.pair.a.qp().counters().direct_messages, 0U);
  EXPECT_FALSE(daemon.pair.a.poll_send());  // its acknowledgement goes to the other one
}

// Nobody will answer any more: that is found at the first timeout, not after seven retries.
TEST(DirectFrames, WhatAWorkersDestroyedQueuePairDoesNotAnswerFailsAtTheFirstTimeout) {
  OneDaemon daemon(true, small_memory());
  daemon.post_write(1, 8);
  daemon.settle();
  ASSERT_TRUE(daemon.pair.a.poll_send());
  daemon.station.worker.remove_qp(daemon.pair.b.qp());
  daemon.post_write(2, 8);
  daemon.settle();
  EXPECT_FALSE(daemon.pair.a.poll_send()) << "too early: the program may be about to end as well";
  daemon.settle(true);
  const auto cqe = daemon.pair.a.poll_send();
  ASSERT_TRUE(cqe.has_value());
  EXPECT_EQ(cqe->status, abi::WcStatus::kRetryExcErr);
  EXPECT_EQ(cqe->vendor_err, static_cast<std::uint32_t>(Failure::kPeerDestroyed));
  EXPECT_EQ(daemon.pair.a.qp().counters().local_ack_timeout_err, 1U);
}

// Its address may be another host's by now, with a queue pair of the same number.
TEST(DirectFrames, ADestroyedPeersAddressThatWasRemovedIsTriedAgain) {
  OneDaemon daemon(true, small_memory());
  daemon.post_write(1, 8);
  daemon.settle();
  ASSERT_TRUE(daemon.pair.a.poll_send());
  daemon.station.worker.remove_qp(daemon.pair.b.qp());
  daemon.post_write(2, 8);
  daemon.settle();
  daemon.station.worker.set_addresses(0, {parse_ip("10.0.0.1").value()});
  daemon.settle(true);
  const auto cqe = daemon.pair.a.poll_send();
  ASSERT_TRUE(cqe.has_value());
  EXPECT_EQ(cqe->vendor_err, static_cast<std::uint32_t>(Failure::kRetriesExhausted));
}

// A queue pair that was only reset may answer again.
TEST(DirectFrames, AQueuePairThatWasResetIsTriedAgain) {
  OneDaemon daemon(true, small_memory());
  daemon.post_write(1, 8);
  daemon.settle();
  ASSERT_TRUE(daemon.pair.a.poll_send());
  daemon.station.worker.modify_qp(daemon.pair.b.qp(), {.state = QpState::kReset}, kQpMaskState);
  daemon.post_write(2, 8);
  daemon.settle(true);
  const auto cqe = daemon.pair.a.poll_send();
  ASSERT_TRUE(cqe.has_value());
  EXPECT_EQ(cqe->vendor_err, static_cast<std::uint32_t>(Failure::kRetriesExhausted));
}

}  // namespace
}  // namespace uroce::test
