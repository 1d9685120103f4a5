// Two workers of one port: frames reach the owner whichever worker received them.

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "dataplane/wire/ecn.h"
#include "tests/reasons/reasons.h"
#include "tests/unit/engine/worker_fixture.h"

namespace uroce::test {
namespace {

class SteeringTest : public testing::Test {
 protected:
  SteeringTest() {
    for (std::uint32_t i = 0; i < 2; ++i) {
      workers_[i] = std::make_unique<Worker>(Worker::Config{
          .index = i, .workers = 2, .ports = {near_.get()}, .keys = &pair_.b.keys()});
      workers_[i]->set_addresses(0, {parse_ip("10.0.0.2").value()});
    }
    const std::array<Worker*, 2> peers{workers_[0].get(), workers_[1].get()};
    workers_[0]->set_peers(peers);
    workers_[1]->set_peers(peers);
  }

  // Puts a request of a's at the end of a queue.
  void arrive(std::uint16_t queue, std::uint32_t count = 1, Ecn ecn = Ecn::kCapable0) {
    Path path = pair_.attributes(true).path;
    path.tos = with_ecn(path.tos, ecn);
    arrive_by(path, queue, count);
  }

  // The same on another path; `damage` is XORed into the ICRC.
  void arrive_by(const Path& path, std::uint16_t queue, std::uint32_t count,
                 std::byte damage = std::byte{0}) {
    for (std::uint32_t i = 0; i < count; ++i) {
      Frame* frame = nullptr;
      ASSERT_EQ(far_->allocate(&frame, 1), 1U);
      const Headers headers{.opcode = Opcode::kRcWriteOnly,
                            .ack_request = true,
                            .dest_qpn = pair_.b.qp().config().qpn,
                            .psn = 100,
                            .reth = {.address = pair_.b.address(), .rkey = pair_.b.key()}};
      FrameWriter writer(*frame, FrameTemplate(path), headers, 0, 1);
      writer.finish();
      frame->data[frame->length - 1] ^= damage;
      ASSERT_EQ(far_->tx_burst(queue, &frame, 1, 0), 1U);
    }
  }

  QpPair pair_{{.b = {.qpn = 19}}};  // worker 1's
  std::pair<std::unique_ptr<Port>, std::unique_ptr<Port>> ports_ =
      make_link({.queues = 2, .wire_entries = 4'096, .frames = 8'192});
  std::unique_ptr<Port>& near_ = ports_.second;
  std::unique_ptr<Port>& far_ = ports_.first;
  std::array<std::unique_ptr<Worker>, 2> workers_;
};

TEST_F(SteeringTest, AFrameThatTheOtherWorkerReceivedReachesTheOwner) {
  workers_[1]->add_qp(pair_.b.qp());
  arrive(0);
  EXPECT_TRUE(workers_[0]->poll(1));
  EXPECT_TRUE(workers_[1]->has_arrivals());
  EXPECT_EQ(workers_[1]->next_deadline(), 0U);
  EXPECT_TRUE(workers_[1]->poll(1));
  Frame* answer = nullptr;
  ASSERT_EQ(far_->rx_burst(1, &answer, 1, 0), 1U);
  far_->release(&answer, 1);
  EXPECT_EQ(workers_[0]->counters().rx_frames, 1U);
  EXPECT_EQ(workers_[0]->counters().handed_over, 1U);
  EXPECT_EQ(workers_[1]->counters().rx_frames, 0U);
}

TEST_F(SteeringTest, FramesReceivedByTheOwnerAreNotHandedOver) {
  workers_[1]->add_qp(pair_.b.qp());
  arrive(1);
  EXPECT_TRUE(workers_[1]->poll(1));
  EXPECT_EQ(workers_[1]->counters().rx_frames, 1U);
  EXPECT_EQ(workers_[1]->counters().handed_over, 0U);
}

// Handed over while the owner had no processor, and the program has reset and reconnected both ends
// since, with the same PSNs.
TEST_F(SteeringTest, AFrameThatWasHandedOverReachesNoLaterLife) {
  constexpr std::uint32_t kFrames = 600;  // more than are received in a turn
  workers_[1]->add_qp(pair_.b.qp());
  arrive(0, kFrames);
  while (workers_[0]->poll(1)) {
  }
  QpAttributes attributes = pair_.attributes(false);
  for (const QpState state : {QpState::kReset, QpState::kInit, QpState::kRtr, QpState::kRts}) {
    constexpr std::uint32_t kAll = ~0U;
    attributes.state = state;
    workers_[1]->modify_qp(pair_.b.qp(), attributes,
                           state == QpState::kReset ? kQpMaskState : kAll);
  }
  workers_[1]->poll(1);
  EXPECT_EQ(workers_[1]->counters().drops[Drop::kWrongQpState], kFrames);
  Frame* answer = nullptr;
  EXPECT_EQ(far_->rx_burst(1, &answer, 1, 0), 0U);
}

// The owner copies the payload, so it should be the first to read it: no other worker gets it into
// its cache.
TEST_F(SteeringTest, TheOwnerDetectsADamagedFrame) {
  const auto dropped = [this](std::size_t worker, Drop reason) {
    return workers_[worker]->counters().drops[reason];
  };
  workers_[1]->add_qp(pair_.b.qp());
  arrive_by(pair_.attributes(true).path, 0, 1, std::byte{1});
  workers_[0]->poll(1);
  EXPECT_EQ(dropped(0, Drop::kBadIcrc), 0U);
  workers_[1]->poll(1);
  EXPECT_EQ(dropped(1, Drop::kBadIcrc), 1U);
  EXPECT_EQ(workers_[1]->roce_counters(0).rx_icrc_encapsulated, 1U);
  note_drops(workers_[1]->counters().drops);
  // The damaged frame doesn't count as the next request, which still comes.
  arrive(0);
  workers_[0]->poll(1);
  workers_[1]->poll(1);
  Frame* answer = nullptr;
  ASSERT_EQ(far_->rx_burst(1, &answer, 1, 0), 1U);
  far_->release(&answer, 1);
}

// A damaged address doesn't show whose frame it was.
TEST_F(SteeringTest, FramesWithoutAnOwnerAreCheckedWhereReceived) {
  Path elsewhere = pair_.attributes(true).path;
  elsewhere.destination_gid = parse_ip("10.0.0.77").value();
  arrive_by(elsewhere, 0, 1, std::byte{1});
  arrive_by(elsewhere, 0, 1);
  workers_[0]->poll(1);
  const auto& drops = workers_[0]->counters().drops;
  EXPECT_EQ(drops[Drop::kBadIcrc], 1U);
  EXPECT_EQ(drops[Drop::kNotOurAddress], 1U);
}

TEST_F(SteeringTest, FramesBeyondTheOwnersRingAreDroppedAndCounted) {
  const std::uint32_t sent = Worker::kRingEntries + 100;
  arrive(0, sent);
  while (workers_[0]->poll(1)) {
  }
  const auto full = static_cast<std::size_t>(Drop::kRingFull);
  note_drops(workers_[0]->counters().drops);
  EXPECT_EQ(workers_[0]->counters().drops[full], 100U);
  const std::uint64_t before = workers_[1]->counters().turns;
  while (workers_[1]->poll(1)) {
  }
  // Turns are bounded: a single one can't have emptied the ring.
  EXPECT_GT(workers_[1]->counters().turns - before, 4U);
  const auto unknown = static_cast<std::size_t>(Drop::kUnknownQp);
  EXPECT_EQ(workers_[1]->counters().drops[unknown], Worker::kRingEntries);
}

// As at a switch whose queue is full: ECN-capable senders are told to slow down.
TEST_F(SteeringTest, AFullRingMarksTheNextFrame) {
  const auto marked = [this] { return pair_.b.qp().counters().np_ecn_marked_roce_packets; };
  const auto arrive_alone = [this](Ecn ecn) {
    arrive(0, 1, ecn);
    for (auto& worker : workers_) {
      while (worker->poll(1)) {
      }
    }
  };
  workers_[1]->add_qp(pair_.b.qp());
  for (const Ecn ecn : {Ecn::kNotCapable, Ecn::kCapable0}) {
    arrive(0, Worker::kRingEntries + 100);
    while (workers_[0]->poll(1)) {
    }
    while (workers_[1]->poll(1)) {
    }
    const std::uint64_t before = marked();
    arrive_alone(ecn);
    EXPECT_EQ(marked() - before, ecn == Ecn::kNotCapable ? 0U : 1U);
    arrive_alone(ecn);
    EXPECT_EQ(marked() - before, ecn == Ecn::kNotCapable ? 0U : 1U)
        << "only the first frame after that";
  }
}

}  // namespace
}  // namespace uroce::test
