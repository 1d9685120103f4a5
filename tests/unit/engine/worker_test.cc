#include "dataplane/engine/worker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>

#include "dataplane/engine/worker_state.h"
#include "tests/reasons/reasons.h"
#include "tests/unit/engine/worker_fixture.h"

namespace uroce::test {
namespace {

std::uint64_t drops(const Worker& worker, Drop reason) {
  note_drops(worker.counters().drops);
  return worker.counters().drops[reason];
}

struct KeptFrames final : FrameSink {
  bool take(std::uint16_t /*port*/, std::span<const std::byte> frame) override {
    frames.emplace_back(frame.begin(), frame.end());
    return frames.size() <= room;
  }
  bool take_mad(std::uint16_t /*port*/, std::span<const std::byte> frame,
                const Gid& /*sender*/) override {
    mads.emplace_back(frame.begin(), frame.end());
    return mads.size() <= room;
  }
  std::vector<std::vector<std::byte>> frames, mads;
  std::size_t room = 100;
};

TEST(Worker, CarriesAWriteFromProgramToProgram) {
  Stations stations;
  fill_pattern(stations.pair.a.memory, 3);
  stations.post_write(77, 10'000);
  stations.settle();
  EXPECT_TRUE(std::equal(stations.pair.a.memory.begin(), stations.pair.a.memory.begin() + 10'000,
                         stations.pair.b.memory.begin()));
  const auto cqe = stations.pair.a.poll_send();
  ASSERT_TRUE(cqe);
  EXPECT_EQ(cqe->wr_id, 77U);
  EXPECT_EQ(cqe->status, abi::WcStatus::kSuccess);
}

TEST(Worker, ATurnIsBoundedAndAFullWireLosesNothing) {
  Stations stations({}, {.wire_entries = 16, .frames = 512});
  stations.pair.a.memory.assign(stations.pair.a.memory.size(), std::byte{7});
  stations.post_write(1, 1'000'000);
  for (int i = 0; i < 10; ++i) {
    stations.a.worker.poll(stations.now);
  }
  EXPECT_EQ(stations.ports.first->counters().tx_frames, 16U);
  EXPECT_LE(stations.a.worker.next_deadline(), stations.now + kNanosecondsPerMillisecond);
  stations.settle();
  ASSERT_TRUE(stations.pair.a.poll_send());
  EXPECT_EQ(stations.pair.b.memory[999'999], std::byte{7});
}

TEST(Worker, APortThatSendsNothingAnyMoreIsABrokenCable) {
  Stations stations({}, {.wire_entries = 16, .frames = 512});
  stations.post_write(1, 1'000'000);
  std::optional<abi::Cqe> cqe;
  const Time end = stations.now + 60 * kNanosecondsPerSecond;
  while (!cqe && stations.now < end) {  // the other end isn't polled
    stations.now += kNanosecondsPerMillisecond;
    stations.a.worker.poll(stations.now);
    cqe = stations.pair.a.poll_send();
  }
  ASSERT_TRUE(cqe);
  EXPECT_EQ(cqe->status, abi::WcStatus::kRetryExcErr);
  EXPECT_GT(stations.a.worker.counters().tx_lost, 0U);
}

TEST(Worker, DropsFramesForAnotherAddress) {
  Stations stations;
  stations.b.worker.set_addresses(0, {parse_ip("10.0.0.3").value(), parse_ip("fe80::1").value()});
  stations.post_write(1, 8);
  stations.settle();
  EXPECT_GE(drops(stations.b.worker, Drop::kNotOurAddress), 1U);
  EXPECT_FALSE(stations.pair.a.poll_send());
}

TEST(Worker, AnAddressIsValidOnlyInItsVlan) {
  Stations stations;
  const Gid ours = parse_ip("10.0.0.2").value();
  stations.b.worker.set_addresses(0, {{ours, 5}});
  stations.post_write(1, 8);
  stations.settle();
  EXPECT_GE(drops(stations.b.worker, Drop::kWrongVlan), 1U);
  EXPECT_FALSE(stations.pair.a.poll_send());
}

TEST(Worker, TaggedFramesArriveInTheirVlanWhateverTheirPriority) {
  for (const int tag : {0x0005, 0xE005}) {
    PairConfig config;
    config.vlan = static_cast<std::uint16_t>(tag);
    Stations stations(config);
    stations.a.worker.set_addresses(0, {{parse_ip("10.0.0.1").value(), 5}});
    stations.b.worker.set_addresses(0, {{parse_ip("10.0.0.2").value(), 5}});
    stations.post_write(1, 8);
    stations.settle();
    ASSERT_TRUE(stations.pair.a.poll_send()) << tag;
  }
}

TEST(Worker, ATagWithAPriorityOnlyIsNoVlan) {
  PairConfig config;
  config.vlan = 0xE000;
  Stations stations(config);
  stations.post_write(1, 8);
  stations.settle();
  EXPECT_TRUE(stations.pair.a.poll_send());
}

// A port on a wire shared with other hosts gets their frames, too.
TEST(Worker, DropsFramesForAnotherStation) {
  Stations stations;
  QpAttributes attributes = stations.pair.a.qp().attributes();
  attributes.path.destination_mac = {{2, 0, 0, 0, 0, 3}};
  stations.a.worker.modify_qp(stations.pair.a.qp(), attributes, kQpMaskPath);
  stations.post_write(1, 8);
  stations.settle();
  EXPECT_GE(drops(stations.b.worker, Drop::kNotOurAddress), 1U);
  EXPECT_FALSE(stations.pair.a.poll_send());
}

TEST(Worker, DropsFramesForNoQueuePair) {
  Stations stations;
  stations.b.worker.remove_qp(stations.pair.b.qp());
  stations.post_write(1, 8);
  stations.settle();
  EXPECT_GE(drops(stations.b.worker, Drop::kUnknownQp), 1U);
}

TEST(Worker, HandsOtherFramesToControlAndCountsRefusedOnes) {
  auto [near, far] = make_link({});
  KeptFrames kept;
  Quiescence quiescence;
  KeyTable keys(quiescence, 16, 1);
  Worker worker({.ports = {near.get()}, .keys = &keys, .frames = &kept});
  kept.room = 1;
  for (int i = 0; i < 2; ++i) {
    Frame* frame = nullptr;
    ASSERT_EQ(far->allocate(&frame, 1), 1U);
    std::memset(frame->data, 0, 60);
    std::memset(frame->data, 0xFF, 6);
    frame->data[12] = std::byte{8};  // ARP
    frame->data[13] = std::byte{6};
    frame->length = 60;
    ASSERT_EQ(far->tx_burst(0, &frame, 1, 0), 1U);
  }
  EXPECT_TRUE(worker.poll(1));
  ASSERT_GE(kept.frames.size(), 1U);
  EXPECT_EQ(kept.frames[0].size(), 60U);
  EXPECT_EQ(drops(worker, Drop::kNotRoce), 1U);
  EXPECT_EQ(drops(worker, Drop::kControlFull), 1U);
}

TEST(Worker, KeepsIrrelevantFramesFromControl) {
  auto [near, far] = make_link({});
  KeptFrames kept;
  Quiescence quiescence;
  KeyTable keys(quiescence, 16, 1);
  Worker worker({.ports = {near.get()}, .keys = &keys, .frames = &kept});
  kept.room = 1;
  Frame* frame = nullptr;
  ASSERT_EQ(far->allocate(&frame, 1), 1U);
  std::memset(frame->data, 0xEF, 60);  // multicast
  frame->length = 60;
  ASSERT_EQ(far->tx_burst(0, &frame, 1, 0), 1U);
  EXPECT_TRUE(worker.poll(1));
  EXPECT_TRUE(kept.frames.empty());
  EXPECT_EQ(drops(worker, Drop::kNotRoce), 1U);
}

TEST(Worker, SendsFramesThatControlBuilt) {
  auto [near, far] = make_link({});
  Quiescence quiescence;
  KeyTable keys(quiescence, 16, 1);
  Worker worker({.ports = {near.get()}, .keys = &keys});
  const std::vector<std::byte> bytes(60, std::byte{9});
  EXPECT_TRUE(worker.send_frame(0, bytes));
  EXPECT_FALSE(worker.send_frame(0, std::vector<std::byte>(100'000)));
  worker.poll(1);
  Frame* frame = nullptr;
  ASSERT_EQ(far->rx_burst(0, &frame, 1, 0), 1U);
  EXPECT_EQ(frame->length, 60U);
  EXPECT_EQ(frame->data[59], std::byte{9});
  far->release(&frame, 1);
}

// Control checks a modification against a state that the queue pair may have left by the time the
// worker applies it.
TEST(Worker, AModificationCheckedBeforeAFailureChangesNothing) {
  Stations stations;
  Worker& worker = stations.a.worker;
  Qp& qp = stations.pair.a.qp();
  const QpAttributes to_rts{.state = QpState::kRts};
  EXPECT_TRUE(worker.modify_qp_in(QpState::kRts, qp, to_rts, kQpMaskState));
  worker.modify_qp(qp, {.state = QpState::kErr}, kQpMaskState);
  EXPECT_FALSE(worker.modify_qp_in(QpState::kRts, qp, to_rts, kQpMaskState));
  EXPECT_FALSE(worker.modify_qp_in(QpState::kRts, qp, {.min_rnr_timer = 3}, kQpMaskMinRnrTimer));
  EXPECT_EQ(qp.state(), QpState::kErr);
  EXPECT_TRUE(worker.modify_qp_in(QpState::kRts, qp, {.state = QpState::kReset}, kQpMaskState));
  EXPECT_EQ(qp.state(), QpState::kReset);
}

TEST(Worker, ALostAcknowledgementsDeadlineIsServed) {
  Stations stations;
  stations.post_write(1, 8);
  stations.a.worker.poll(stations.now);
  Frame* lost = nullptr;
  ASSERT_EQ(stations.ports.second->rx_burst(0, &lost, 1, 0), 1U);
  stations.ports.second->release(&lost, 1);
  stations.settle();
  EXPECT_FALSE(stations.pair.a.poll_send());
  const Time deadline = stations.a.worker.next_deadline();
  ASSERT_NE(deadline, kNever);
  ASSERT_GT(deadline, stations.now);
  stations.now = deadline;
  stations.settle();
  EXPECT_TRUE(stations.pair.a.poll_send());
}

TEST(Worker, ASmallMessageOvertakesABulkTransfer) {
  // Given a bulk transfer that has the port, and a second queue pair,
  Stations stations;
  QpPair other({.a = {.qpn = 33}, .b = {.qpn = 34}});
  stations.a.worker.add_qp(other.a.qp());
  stations.post_write(1, 1'000'000);
  stations.a.worker.poll(stations.now);
  // when the second one posts a small message (with inline data and a key that this table doesn't
  // have),
  abi::SendWr wr = rdma_wr(2, abi::WrOpcode::kRdmaWrite, other.b, 0);
  other.a.post_inline(wr, std::array<std::byte, 8>{});
  other.a.ring(stations.now);
  stations.a.worker.schedule(other.a.qp());
  // then it is sent within the next turns, not after the bulk.
  stations.a.worker.poll(stations.now);
  stations.a.worker.poll(stations.now);
  EXPECT_EQ(other.a.qp().counters().requests_sent, 1U);
  EXPECT_LT(stations.pair.a.qp().counters().requests_sent, 1'000'000U / 1'024);
  stations.a.worker.remove_qp(other.a.qp());
}

TEST(Worker, FramesPerTurnAreThePortsNumber) {
  for (const std::uint32_t wanted : {kTurnBurst, kBurstMax}) {
    Stations stations({}, {.turn_burst = wanted});
    stations.post_write(1, 100'000);
    stations.a.worker.poll(stations.now);
    EXPECT_EQ(stations.ports.first->counters().tx_frames, wanted);
    stations.a.worker.poll(stations.now);
    stations.b.worker.poll(stations.now);
    EXPECT_EQ(stations.ports.second->counters().rx_frames, wanted);
    stations.settle();
    EXPECT_TRUE(stations.pair.a.poll_send());
  }
}

// All that came in one turn is acknowledged once.
TEST(Worker, BurstsPerTurnAreThePortsNumber) {
  Stations stations({}, {.turn_bursts = 3});
  stations.post_write(1, 150'000);
  stations.a.worker.poll(stations.now);
  EXPECT_EQ(stations.ports.first->counters().tx_frames, 3 * kTurnBurst);
  stations.a.worker.poll(stations.now);
  stations.b.worker.poll(stations.now);
  EXPECT_EQ(stations.ports.second->counters().rx_frames, 3 * kTurnBurst);
  EXPECT_EQ(stations.ports.second->counters().tx_frames, 1U);
  stations.settle();
  EXPECT_TRUE(stations.pair.a.poll_send());
}

// A program with many sessions in which all bells ring all the time. Another session that rings
// waits until what rang before is served once, however many sessions that came from.
TEST(Worker, ASessionWaitsOnlyForEarlierBells) {
  constexpr std::uint32_t kSessions = 64, kSlots = 64;
  constexpr std::uint32_t kTurnsForAll =
      (kSessions * kSlots + Worker::kRingEntries) / kDoorbellDrainMax + 4;
  Stations stations;
  QpPair busy({.a = {.qpn = 33}, .b = {.qpn = 34}});
  stations.a.worker.add_qp(busy.a.qp());
  std::vector<std::unique_ptr<abi::Doorbells>> bells;
  std::deque<SessionDoorbells> sessions;
  for (std::uint32_t i = 0; i < kSessions; ++i) {
    bells.push_back(std::make_unique<abi::Doorbells>());
    sessions.push_back(
        {.bells = bells.back().get(), .slots = std::vector<Qp*>(kSlots, &busy.a.qp())});
    stations.a.worker.add_session(sessions.back());
  }
  const auto turn = [&] {
    for (auto& of : bells) {
      for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
        abi::ring(*of, slot);
      }
    }
    stations.a.worker.poll(stations.now);
    stations.b.worker.poll(stations.now);
  };
  turn();
  stations.post_write(1, 8);
  std::uint32_t turns = 0;
  for (; turns < 2 * kTurnsForAll && !stations.pair.a.poll_send(); ++turns) {
    turn();
  }
  EXPECT_LE(turns, kTurnsForAll);
}

TEST(Worker, ARemovedQueuePairLeavesNothingBehind) {
  Stations stations;
  stations.post_write(1, 100'000);
  stations.a.worker.poll(stations.now);
  stations.a.ring();
  stations.session_gone();
  stations.a.worker.remove_qp(stations.pair.a.qp());
  stations.a.worker.remove_qp(stations.pair.a.qp());
  for (Time step = 0; step < 10; ++step) {
    stations.now += kNanosecondsPerSecond;
    stations.settle();
  }
  EXPECT_EQ(stations.a.worker.next_deadline(), kNever);
}

}  // namespace
}  // namespace uroce::test
