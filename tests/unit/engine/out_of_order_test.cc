// Out-of-order frames that a worker buffers for several queue pairs until a missing one arrives.

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <memory>
#include <vector>

#include "dataplane/engine/waiting/counts_by_user.h"
#include "tests/unit/engine/worker_fixture.h"

namespace uroce::test {
namespace {

constexpr std::uint32_t kFirst = 100;  // PairConfig::psn_a
constexpr std::uint64_t kOtherUser = 1;

class OutOfOrder : public testing::Test {
 protected:
  OutOfOrder() : worker_({.ports = {near_.get()}, .keys = &pairs_.front().b.keys()}) {
    worker_.set_addresses(0, {parse_ip("10.0.0.2").value()});
    for (QpPair& pair : pairs_) {
      worker_.add_qp(pair.b.qp());
    }
  }

  // `count` requests with consecutive PSNs, the first as far ahead of the missing one.
  void arrive_ahead(QpPair& pair, std::uint32_t count, Time now, std::uint32_t ahead = 1) {
    for (std::uint32_t i = 0; i < count; ++i) {
      Frame* frame = nullptr;
      ASSERT_EQ(far_->allocate(&frame, 1), 1U);
      const Headers headers{.opcode = Opcode::kRcWriteMiddle,
                            .dest_qpn = pair.b.qp().config().qpn,
                            .psn = psn_add(kFirst + ahead, i)};
      FrameWriter writer(*frame, FrameTemplate(pair.attributes(true).path), headers, 0, 1);
      writer.finish();
      ASSERT_EQ(far_->tx_burst(0, &frame, 1, 0), 1U);
    }
    while (worker_.poll(now)) {
    }
  }

  std::deque<QpPair> pairs_ = [] {
    std::deque<QpPair> pairs;
    for (const std::uint32_t qpn : {18U, 19U, 20U}) {
      pairs.emplace_back(PairConfig{.b = {.qpn = qpn}});
    }
    pairs.emplace_back(PairConfig{.b = {.qpn = 21, .user = kOtherUser}});
    return pairs;
  }();
  std::pair<std::unique_ptr<Port>, std::unique_ptr<Port>> ports_ =
      make_link({.wire_entries = 4'096, .frames = 8'192});
  std::unique_ptr<Port>& near_ = ports_.second;
  std::unique_ptr<Port>& far_ = ports_.first;
  Worker worker_;
};

// All room is taken by two peers, which fall silent one after the other.
TEST_F(OutOfOrder, ASilentPeersFramesMakeRoom) {
  constexpr Time kLater = 50 * kNanosecondsPerMillisecond;
  arrive_ahead(pairs_[0], OutOfOrderPackets::kMax, 1);
  arrive_ahead(pairs_[1], OutOfOrderPackets::kMax, kLater);
  EXPECT_EQ(pairs_[0].b.qp().out_of_order(true) + pairs_[1].b.qp().out_of_order(true),
            Worker::kOutOfOrderTotalMax);
  arrive_ahead(pairs_[2], 1, kLater + 1);
  EXPECT_EQ(pairs_[2].b.qp().out_of_order(true), 0U) << "there is no room";
  arrive_ahead(pairs_[2], 1, 5 * kLater);
  EXPECT_EQ(pairs_[2].b.qp().out_of_order(true), 1U);
  EXPECT_EQ(pairs_[0].b.qp().out_of_order(true), 0U);
}

// All room is taken by one user, whose peers go on.
TEST_F(OutOfOrder, AUserWithMuchMakesRoomForAnother) {
  arrive_ahead(pairs_[0], OutOfOrderPackets::kMax, 1);
  arrive_ahead(pairs_[1], OutOfOrderPackets::kMax, 1);
  arrive_ahead(pairs_[2], 1, 1);
  EXPECT_EQ(pairs_[0].b.qp().out_of_order(true) + pairs_[1].b.qp().out_of_order(true),
            Worker::kOutOfOrderTotalMax)
      << "it makes none for itself";
  constexpr std::uint32_t kFew = 10;
  arrive_ahead(pairs_[3], kFew, 1);
  EXPECT_EQ(pairs_[3].b.qp().out_of_order(true), kFew - 1) << "all but the first";
  EXPECT_EQ(pairs_[0].b.qp().out_of_order(true) + pairs_[1].b.qp().out_of_order(true),
            Worker::kOutOfOrderTotalMax / 2);
}

// More room wouldn't help a frame that is too far ahead to be buffered.
TEST_F(OutOfOrder, OnlyAFrameThatWouldBeBufferedMakesRoom) {
  arrive_ahead(pairs_[0], OutOfOrderPackets::kMax, 1);
  arrive_ahead(pairs_[1], OutOfOrderPackets::kMax, 1);
  arrive_ahead(pairs_[3], 1, 1, OutOfOrderPackets::kSpan);
  EXPECT_EQ(pairs_[0].b.qp().out_of_order(true) + pairs_[1].b.qp().out_of_order(true),
            Worker::kOutOfOrderTotalMax);
}

TEST(CountsByUser, KnowsWhoHasMoreThanTwiceAsMany) {
  constexpr std::uint64_t kMost = 1;
  constexpr std::uint64_t kSome = 2;
  constexpr std::uint64_t kNone = 3;
  CountsByUser frames;
  EXPECT_EQ(frames.who_exceeds(kNone), std::nullopt);
  for (int i = 0; i < 5; ++i) {
    frames.add(kMost);
  }
  frames.add(kSome);
  frames.add(kSome);
  EXPECT_EQ(frames.total(), 7U);
  EXPECT_EQ(frames.who_exceeds(kNone), kMost);
  EXPECT_EQ(frames.who_exceeds(kSome), kMost);
  EXPECT_EQ(frames.who_exceeds(kMost), std::nullopt);
  frames.remove(kMost, 1);
  EXPECT_EQ(frames.who_exceeds(kSome), std::nullopt) << "four are only twice two";
  frames.remove(kMost, 4);
  EXPECT_EQ(frames.of(kMost), 0U);
  EXPECT_EQ(frames.who_exceeds(kNone), kSome);
}

// There is room, but each frame holds one of the port's buffers.
TEST_F(OutOfOrder, FramesForADeadPeerAreReleased) {
  constexpr Time kSecond = kNanosecondsPerSecond;
  arrive_ahead(pairs_[0], 10, 1);
  worker_.poll(kSecond);
  EXPECT_EQ(pairs_[0].b.qp().out_of_order(true), 10U);
  arrive_ahead(pairs_[1], 10, 2 * kSecond);
  EXPECT_LE(worker_.next_deadline(), 2 * kSecond + kNanosecondsPerSecond / 10);
  worker_.poll(3 * kSecond);
  EXPECT_EQ(pairs_[0].b.qp().out_of_order(true), 0U);
  EXPECT_EQ(pairs_[1].b.qp().out_of_order(true), 10U);
  worker_.poll(4 * kSecond + kNanosecondsPerSecond / 10);
  EXPECT_EQ(pairs_[1].b.qp().out_of_order(true), 0U);
  EXPECT_EQ(worker_.next_deadline(), kNever);
}

// Out-of-order frames hold all of a port's buffers: the missing one couldn't come, and nobody could
// send.
TEST_F(OutOfOrder, FramesMakeRoomToSend) {
  arrive_ahead(pairs_[1], 10, 1);
  std::vector<Frame*> others;
  for (Frame* frame = nullptr; far_->allocate(&frame, 1) == 1;) {
    others.push_back(frame);
  }
  Endpoint& sender = pairs_[0].b;  // whose keys the worker has
  SessionDoorbells session;
  const auto bells = std::make_unique<abi::Doorbells>();
  session.bells = bells.get();
  session.slots.push_back(&sender.qp());
  worker_.add_session(session);
  const abi::Sge sge = sender.sge(0, 65'536);  // more than the worker's stock of empty frames
  sender.post_send(rdma_wr(1, abi::WrOpcode::kRdmaWrite, pairs_[0].a, 0), {&sge, 1});
  abi::ring(*bells, 0);
  while (worker_.poll(2)) {
  }
  EXPECT_EQ(pairs_[1].b.qp().out_of_order(true), 0U);
  std::uint32_t sent = 0;
  for (Frame* frame = nullptr; far_->rx_burst(0, &frame, 1, 3) == 1; ++sent) {
    far_->release(&frame, 1);
    worker_.poll(3);
  }
  EXPECT_GE(sent, kTurnBurst) << "of those that were buffered";
  far_->release(others.data(), static_cast<std::uint32_t>(others.size()));
  worker_.remove_session(session);
}

// Frames buffered for a queue pair aren't counted any more once it is removed.
TEST_F(OutOfOrder, ARemovedQueuePairFreesItsRoom) {
  arrive_ahead(pairs_[0], OutOfOrderPackets::kMax, 1);
  arrive_ahead(pairs_[1], OutOfOrderPackets::kMax, 1);
  worker_.remove_qp(pairs_[0].b.qp());
  arrive_ahead(pairs_[2], 1, 2);
  EXPECT_EQ(pairs_[2].b.qp().out_of_order(true), 1U);
}

}  // namespace
}  // namespace uroce::test
