// Frames of a queue pair whose memory isn't resident wait in the worker, in order and bounded.
// Memory is the fake of tests/unit/qp.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "dataplane/wire/sack.h"
#include "tests/reasons/reasons.h"
#include "tests/unit/engine/worker_fixture.h"
#include "tests/unit/qp/fake_memory.h"

namespace uroce::test {
namespace {

TEST(WorkerPark, ParksABoundedNumberOfFramesAndDropsTheRest) {
  Stations stations({}, {.wire_entries = 1'024, .frames = 8'192});
  fill_pattern(stations.pair.a.memory, 5);
  const std::uint64_t start = stations.pair.b.address(0);
  const std::uint64_t stop = start + stations.pair.b.memory.size();
  missing = [=](std::uint64_t address) { return address >= start && address < stop; };
  stations.post_write(1, 400'000);
  stations.settle();
  EXPECT_FALSE(stations.pair.a.poll_send());
  note_drops(stations.b.worker.counters().drops);
  EXPECT_GT(stations.b.worker.counters().drops[Drop::kParkFull], 0U);

  missing = nullptr;
  stations.b.worker.resume(stations.pair.b.qp());
  while (!stations.pair.a.poll_send()) {  // the dropped ones are retransmitted by timeout
    stations.settle();
    ASSERT_NE(stations.a.worker.next_deadline(), kNever);
    stations.now = std::max(stations.now + 1, stations.a.worker.next_deadline());
  }
  EXPECT_TRUE(std::equal(stations.pair.a.memory.begin(), stations.pair.a.memory.begin() + 400'000,
                         stations.pair.b.memory.begin()));
}

// Congestion notifications and the like aren't part of the sequence of parked frames, and aren't
// parked.
TEST(WorkerPark, PacketsOutsideTheSequenceAreNotParked) {
  Stations stations;
  QpPair& pair = stations.pair;
  const std::uint64_t start = pair.b.address(4'096);
  missing = [=](std::uint64_t address) { return address >= start && address < start + 4'096; };
  stations.post_write(1, 8, 4'096);
  stations.settle();
  const std::uint64_t told_later = pair.b.qp().counters().rnr_naks_sent;
  const auto request =
      pair.forge(pair.b, {.opcode = Opcode::kSackRequest, .psn = 100}, sack_request());
  Frame* frame = nullptr;
  ASSERT_EQ(stations.ports.first->allocate(&frame, 1), 1U);
  std::copy_n(request->frame.data, request->frame.length, frame->data);
  frame->length = request->frame.length;
  ASSERT_EQ(stations.ports.first->tx_burst(0, &frame, 1, stations.now), 1U);
  stations.settle();
  EXPECT_EQ(pair.b.qp().counters().sacks_sent, 1U);
  EXPECT_EQ(pair.b.qp().counters().rnr_naks_sent, told_later);
  missing = nullptr;
  stations.b.worker.resume(pair.b.qp());
  stations.settle();
  EXPECT_TRUE(pair.a.poll_send().has_value());
}

// An answer that was lost before its queue pair parked is what the peer needs first: no other
// answer helps it.
TEST(WorkerPark, RepeatsLostAnswersWhileParked) {
  Stations stations;
  QpPair& pair = stations.pair;
  fill_pattern(pair.b.memory, 6);
  const std::uint64_t start = pair.b.address(4'096);
  missing = [=](std::uint64_t address) { return address >= start && address < start + 4'096; };
  const abi::Sge sge = pair.a.sge(0, 8);
  pair.a.post_send(rdma_wr(1, abi::WrOpcode::kRdmaRead, pair.b, 0), {&sge, 1});
  stations.post_write(2, 8, 4'096);
  stations.a.worker.poll(stations.now);
  while (stations.b.worker.poll(stations.now)) {
  }
  std::array<Frame*, 4> answers{};
  const std::uint32_t lost =
      stations.ports.first->rx_burst(0, answers.data(), answers.size(), stations.now);
  ASSERT_EQ(lost, 1U);
  stations.ports.first->release(answers.data(), lost);

  stations.now = stations.a.worker.next_deadline();
  stations.settle();
  const auto read = pair.a.poll_send();
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->status, abi::WcStatus::kSuccess);
  EXPECT_FALSE(pair.a.poll_send().has_value());

  missing = nullptr;
  stations.b.worker.resume(pair.b.qp());
  stations.settle();
  EXPECT_TRUE(pair.a.poll_send().has_value());
}

// Parked frames belong to the connection that RESET ends: the next one, which may begin with the
// same PSN, gets none of them, and its peer isn't asked to wait for them.
TEST(WorkerPark, ParkedFramesEndWithTheConnection) {
  Stations stations;
  QpPair& pair = stations.pair;
  const std::uint64_t start = pair.b.address(0);
  missing = [=](std::uint64_t address) { return address >= start && address < start + 8; };
  fill_pattern(pair.a.memory, 5);
  stations.post_write(1, 8);
  stations.settle();
  EXPECT_FALSE(pair.a.poll_send());
  for (const bool of_a : {true, false}) {
    Station& station = of_a ? stations.a : stations.b;
    Qp& qp = (of_a ? pair.a : pair.b).qp();
    station.worker.modify_qp(qp, {.state = QpState::kReset}, kQpMaskState);
    QpAttributes attributes = pair.attributes(of_a);
    for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
      attributes.state = state;
      station.worker.modify_qp(qp, attributes, ~std::uint32_t{0});
    }
  }
  missing = nullptr;
  stations.b.worker.resume(pair.b.qp());
  stations.settle();
  EXPECT_EQ(pair.b.memory[0], std::byte{0});
  const std::uint64_t told_later = pair.b.qp().counters().rnr_naks_sent;
  stations.post_write(2, 8, 4'096);
  stations.settle();
  const auto written = pair.a.poll_send();
  ASSERT_TRUE(written.has_value());
  EXPECT_EQ(written->wr_id, 2U);
  EXPECT_EQ(written->status, abi::WcStatus::kSuccess);
  EXPECT_EQ(pair.b.qp().counters().rnr_naks_sent, told_later);
  EXPECT_EQ(pair.b.memory[0], std::byte{0});
}

}  // namespace
}  // namespace uroce::test
